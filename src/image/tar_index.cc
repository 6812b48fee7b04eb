#include "image/tar_index.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <vector>

namespace caisson::image {

namespace {

constexpr std::size_t kBlock = 512;
constexpr int kLinkHopsMax = 8;

std::unexpected<Error> bad(std::string_view why) {
  return bad_field("archive", fmt::format("the archive is not a tar that can be read: {}", why));
}

using Block = std::array<char, kBlock>;

// Up to `size` bytes at an offset; fewer at the end of the file.
Result<std::size_t> read_at(int fd, std::uint64_t offset, char* out, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(fd, out + done, size - done, static_cast<off_t>(offset + done));
    const int sys_errno = errno;
    if (got < 0 && sys_errno == EINTR) continue;
    if (got < 0) return sys_failure("read the archive", sys_errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::string_view text_of(const Block& block, std::size_t at, std::size_t size) {
  const std::string_view whole(block.data() + at, size);
  return whole.substr(0, whole.find('\0'));
}

// Octal digits with spaces or NULs around, or GNU's base 256.
std::optional<std::uint64_t> number_of(const Block& block, std::size_t at, std::size_t size) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(block[at + i]); };
  if ((byte(0) & 0x80U) != 0) {
    if (byte(0) != 0x80U) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 1; i < size; ++i) {
      if ((value >> 55U) != 0) return std::nullopt;
      value = (value << 8U) | byte(i);
    }
    return value;
  }
  std::string_view text(block.data() + at, size);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::size_t end = std::min(text.find_first_of(std::string_view(" \0", 2)), text.size());
  const std::string_view digits = text.substr(0, end);
  if (digits.empty()) return 0;
  std::uint64_t value = 0;
  const auto [last, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (ec != std::errc() || last != digits.data() + digits.size()) return std::nullopt;
  return value;
}

bool checksum_holds(const Block& block) {
  const auto said = number_of(block, 148, 8);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    sum += i >= 148 && i < 156 ? 0x20U : static_cast<unsigned char>(block[i]);
  }
  return said && *said == sum;
}

bool is_zero(const Block& block) {
  return std::ranges::all_of(block, [](char c) { return c == '\0'; });
}

// What extension headers said about the next entry.
struct Extra {
  std::string name;
  std::string target;
  std::optional<std::uint64_t> size;
};

// "27 path=some/name\n" and so on.
Result<void> read_pax(std::string_view text, Extra& extra) {
  while (!text.empty() && text.front() != '\0') {
    std::size_t length = 0;
    const auto [at, ec] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<std::size_t>(at - text.data());
    if (ec != std::errc() || length > text.size() || length < digits + 3 || *at != ' ' ||
        text[length - 1] != '\n') {
      return bad("an extended header is malformed");
    }
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == record.npos) return bad("an extended header is malformed");
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (value.find('\0') != value.npos) return bad("an extended header has a NUL in it");
    if (key == "path") extra.name = value;
    if (key == "linkpath") extra.target = value;
    if (key == "size") {
      std::uint64_t size = 0;
      const auto [end, bad_size] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (bad_size != std::errc() || end != value.data() + value.size()) {
        return bad("an extended header has a malformed size");
      }
      extra.size = size;
    }
    if (key.starts_with("GNU.sparse")) return bad("sparse entries are not supported here");
  }
  return {};
}

// Without leading "./" and trailing '/'; the top itself is empty.
std::string plain_name(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  while (name.ends_with('/')) name.remove_suffix(1);
  return std::string(name == "." ? std::string_view() : name);
}

TarKind kind_of(char type) {
  switch (type) {
    case '0':
    case '\0':
    case '7':
      return TarKind::File;
    case '1':
      return TarKind::HardLink;
    case '2':
      return TarKind::SymLink;
    case '5':
      return TarKind::Folder;
    default:
      return TarKind::Other;
  }
}

class Scanner {
 public:
  Scanner(int fd, std::uint64_t size, std::size_t entries_max)
      : fd_(fd), size_(size), entries_max_(entries_max) {}

  Result<TarIndex> run() {
    while (at_ < size_) {
      Block block{};
      if (TRY(read_at(fd_, at_, block.data(), kBlock)) < kBlock) {
        return bad("it ends in the middle of a header");
      }
      at_ += kBlock;
      if (is_zero(block)) return std::move(index_);
      if (!checksum_holds(block)) return bad("the checksum of a header does not hold");
      if (TRY(take(block))) return std::move(index_);
    }
    if (count_ == 0) return bad("it is empty");
    return std::move(index_);
  }

 private:
  // True when nothing more is to be read.
  Result<bool> take(const Block& block) {
    const auto said = number_of(block, 124, 12);
    if (!said) return bad("a header has a malformed size");
    const char type = block[156];
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
      TRY(take_extension(type, *said));
      return false;
    }
    if (type == 'S') return bad("sparse entries are not supported here");
    TarEntry entry;
    entry.kind = kind_of(type);
    entry.offset = at_;
    entry.size = extra_.size.value_or(*said);
    // Links and folders have no content, whatever their size field says.
    if (entry.kind != TarKind::File && entry.kind != TarKind::Other) entry.size = 0;
    entry.target = extra_.target.empty() ? std::string(text_of(block, 157, 100)) : extra_.target;
    std::string name = plain_name(extra_.name.empty() ? header_name(block) : extra_.name);
    extra_ = Extra();
    if (name.size() > kTarNameBytesMax) return bad("a name is too long");
    if (entry.size > size_ - std::min(at_, size_)) return bad("an entry ends behind the archive");
    at_ += (entry.size + kBlock - 1) / kBlock * kBlock;
    if (++count_ > entries_max_) {
      index_.cut = true;
      return true;
    }
    if (name.empty()) return false;
    const auto [place, fresh] = index_.entries.emplace(name, entry);
    const bool folders = entry.kind == TarKind::Folder && place->second.kind == TarKind::Folder;
    if (!fresh && !folders && index_.twice.empty()) index_.twice = name;
    return false;
  }

  Result<void> take_extension(char type, std::uint64_t size) {
    if (size > kPaxBytesMax || ++extensions_ > 2 * entries_max_ + 16) {
      return bad("its extended headers are too large or too many");
    }
    std::string text(static_cast<std::size_t>(size), '\0');
    if (TRY(read_at(fd_, at_, text.data(), text.size())) < text.size()) {
      return bad("it ends in the middle of an extended header");
    }
    at_ += (size + kBlock - 1) / kBlock * kBlock;
    if (type == 'x') return read_pax(text, extra_);
    const std::string_view value = std::string_view(text).substr(0, text.find('\0'));
    if (type == 'L') extra_.name = value;
    if (type == 'K') extra_.target = value;
    return {};
  }

  static std::string header_name(const Block& block) {
    const std::string_view name = text_of(block, 0, 100);
    const bool ustar = text_of(block, 257, 6) == "ustar";
    const std::string_view prefix = ustar ? text_of(block, 345, 155) : std::string_view();
    return prefix.empty() ? std::string(name) : fmt::format("{}/{}", prefix, name);
  }

  int fd_;
  std::uint64_t size_;
  std::size_t entries_max_;
  std::uint64_t at_ = 0;
  std::size_t count_ = 0;
  std::size_t extensions_ = 0;
  Extra extra_;
  TarIndex index_;
};

// `target` as seen from the folder of `name`, as text; nothing when it leaves the archive.
std::optional<std::string> join(std::string_view name, std::string_view target) {
  if (target.empty() || target.starts_with('/')) return std::nullopt;
  std::vector<std::string_view> parts;
  const auto add = [&](std::string_view path) {
    while (!path.empty()) {
      const std::size_t slash = std::min(path.find('/'), path.size());
      const std::string_view part = path.substr(0, slash);
      path.remove_prefix(std::min(slash + 1, path.size()));
      if (part.empty() || part == ".") continue;
      if (part != "..") {
        parts.push_back(part);
      } else if (parts.empty()) {
        return false;
      } else {
        parts.pop_back();
      }
    }
    return true;
  };
  const std::size_t slash = name.rfind('/');
  if (slash != name.npos && !add(name.substr(0, slash))) return std::nullopt;
  if (!add(target)) return std::nullopt;
  std::string out;
  for (const std::string_view part : parts) {
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

}  // namespace

Result<TarEntry> TarIndex::file(std::string_view name) const {
  std::string at(name);
  for (int hops = 0; hops < kLinkHopsMax; ++hops) {
    const auto found = entries.find(at);
    if (found == entries.end()) {
      return bad_field("archive", fmt::format("the archive has no '{}'", at.substr(0, 200)));
    }
    const TarEntry& entry = found->second;
    if (entry.kind == TarKind::File) return entry;
    if (entry.kind != TarKind::SymLink) break;
    const auto next = join(at, entry.target);
    if (!next) break;
    at = *next;
  }
  return bad_field("archive",
                   fmt::format("'{}' in the archive is not a regular file", name.substr(0, 200)));
}

Result<TarIndex> index_tar(int fd, std::size_t entries_max) {
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) return sys_failure("look at the archive", errno);
  if (!S_ISREG(facts.st_mode)) return bad("it is not a regular file");
  return Scanner(fd, static_cast<std::uint64_t>(facts.st_size), entries_max).run();
}

}  // namespace caisson::image
