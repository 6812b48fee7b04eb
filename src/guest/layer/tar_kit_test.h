// A tar, header by header, by a writer that can lie in every field.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caisson::layer {

struct Header {
  std::string name;
  char type = '0';
  std::string link{};
  std::uint32_t mode = 0644;
  std::uint64_t uid = 0;
  std::uint64_t gid = 0;
  std::uint64_t size = 0;
  std::uint64_t mtime = 1'700'000'000;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::string prefix{};
  std::string magic = std::string("ustar\00000", 8);
  int checksum_off = 0;
  std::vector<std::pair<std::size_t, std::string>> patches{};  // bytes put over the header, last
};

class Tar {
 public:
  Tar& header(const Header& h) {
    std::array<char, 512> block{};
    put(block, 0, 100, h.name);
    octal(block, 100, 8, h.mode);
    octal(block, 108, 8, h.uid);
    octal(block, 116, 8, h.gid);
    octal(block, 124, 12, h.size);
    octal(block, 136, 12, h.mtime);
    block[156] = h.type;
    put(block, 157, 100, h.link);
    put(block, 257, 8, h.magic);
    octal(block, 329, 8, h.device_major);
    octal(block, 337, 8, h.device_minor);
    put(block, 345, 155, h.prefix);
    for (const auto& [at, bytes] : h.patches) put(block, at, bytes.size(), bytes);
    int sum = 8 * ' ';
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (i < 148 || i >= 156) sum += static_cast<unsigned char>(block[i]);
    }
    octal(block, 148, 7, static_cast<std::uint64_t>(sum + h.checksum_off));
    block[155] = ' ';
    bytes_.append(block.data(), block.size());
    return *this;
  }
  Tar& data(std::string_view content) {
    bytes_ += content;
    bytes_.append((512 - content.size() % 512) % 512, '\0');
    return *this;
  }

  Tar& file(const std::string& name, std::string_view content = "", std::uint32_t mode = 0644) {
    header({.name = name, .mode = mode, .size = content.size()});
    return data(content);
  }
  Tar& folder(const std::string& name, std::uint32_t mode = 0755) {
    return header({.name = name, .type = '5', .mode = mode});
  }
  Tar& link(const std::string& name, const std::string& target) {
    return header({.name = name, .type = '2', .link = target, .mode = 0777});
  }
  Tar& hard(const std::string& name, const std::string& target) {
    return header({.name = name, .type = '1', .link = target});
  }
  // An extended header of these records, for the entry that follows.
  Tar& pax(const std::vector<std::pair<std::string, std::string>>& records, char type = 'x') {
    std::string text;
    for (const auto& [key, value] : records) {
      std::size_t size = key.size() + value.size() + 3;
      while (size != key.size() + value.size() + 3 + std::to_string(size).size()) {
        size = key.size() + value.size() + 3 + std::to_string(size).size();
      }
      text += std::to_string(size) + " " + key + "=" + value + "\n";
    }
    return extension(type, text);
  }
  Tar& extension(char type, const std::string& text) {
    header({.name = "extension", .type = type, .size = text.size()});
    return data(text);
  }
  Tar& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  [[nodiscard]] std::string end() const { return bytes_ + std::string(1024, '\0'); }
  [[nodiscard]] const std::string& cut() const { return bytes_; }

 private:
  using Block = std::array<char, 512>;
  static void put(Block& block, std::size_t at, std::size_t size, const std::string& text) {
    std::memcpy(block.data() + at, text.data(), std::min(size, text.size()));
  }
  static void octal(Block& block, std::size_t at, std::size_t size, std::uint64_t value) {
    for (std::size_t i = size - 1; i > 0; --i, value >>= 3U) {
      block[at + i - 1] = static_cast<char>('0' + (value & 7U));
    }
  }

  std::string bytes_;
};

}  // namespace caisson::layer
