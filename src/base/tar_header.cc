#include "base/tar_header.h"

#include <algorithm>
#include <string_view>

namespace caisson {
namespace {

constexpr std::uint64_t kOctalSizeMax = 0777'7777'7777;  // eleven digits
constexpr std::size_t kNameBytes = 100;

void put_octal(std::string& block, std::size_t at, std::size_t width, std::uint64_t value) {
  for (std::size_t i = width - 1; i > 0; --i, value >>= 3U)
    block[at + i - 1] = static_cast<char>('0' + (value & 7U));
}

std::string one_block(const TarHeader& entry) {
  std::string block(kTarBlock, '\0');
  const std::string_view name = std::string_view(entry.name).substr(0, kNameBytes);
  const std::string_view link = std::string_view(entry.link).substr(0, kNameBytes);
  block.replace(0, name.size(), name);
  put_octal(block, 100, 8, entry.mode & 0777U);
  put_octal(block, 108, 8, 0);
  put_octal(block, 116, 8, 0);
  put_octal(block, 124, 12, std::min(entry.size, kOctalSizeMax));
  put_octal(
      block, 136, 12,
      std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(entry.mtime, 0)), kOctalSizeMax));
  block[156] = entry.type;
  block.replace(157, link.size(), link);
  block.replace(257, 8, std::string_view("ustar\00000", 8));
  std::uint64_t sum = std::uint64_t{8} * ' ';
  for (std::size_t i = 0; i < block.size(); ++i)
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(block[i]);
  put_octal(block, 148, 7, sum);
  block[155] = ' ';
  return block;
}

// The number in front counts the whole record, itself included.
std::string record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;  // ' ', '=' and '\n'
  std::size_t size = rest + 1;
  while (std::to_string(size).size() + rest != size) size = std::to_string(size).size() + rest;
  std::string out = std::to_string(size) + " ";
  return out.append(key).append("=").append(value).append("\n");
}

}  // namespace

std::string tar_header(const TarHeader& entry) {
  std::string records;
  if (entry.name.size() > kNameBytes) records += record("path", entry.name);
  if (entry.link.size() > kNameBytes) records += record("linkpath", entry.link);
  if (entry.size > kOctalSizeMax) records += record("size", std::to_string(entry.size));
  std::string out;
  if (!records.empty()) {
    const TarHeader extended{"PaxHeaders", "", 'x', 0644, 0, records.size()};
    out = one_block(extended) + records;
    out.append(tar_padding(records.size()), '\0');
  }
  return out + one_block(entry);
}

}  // namespace caisson
