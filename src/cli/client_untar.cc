#include "cli/client_untar.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "policy/wording.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kNameMax = 255;
constexpr std::size_t kPathMax = 4095;

std::unexpected<Error> refused(std::string_view name, std::string_view why) {
  return failure(Errc::Denied, fmt::format("the archive holds {}, {}: the copy stops here",
                                           policy::in_quotes(name), why));
}

std::unexpected<Error> malformed(std::string_view why) {
  return failure(Errc::Protocol, fmt::format("the server sent no proper tar archive: {}", why));
}

// An octal field that ends in a NUL or a space.
std::optional<std::uint64_t> octal(std::string_view field) {
  while (field.starts_with(' ')) field.remove_prefix(1);
  std::uint64_t value = 0;
  std::size_t digits = 0;
  for (const char c : field) {
    if (c == '\0' || c == ' ') break;
    if (c < '0' || c > '7' || ++digits > 20) return std::nullopt;
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

std::string_view text_of(std::string_view field) { return field.substr(0, field.find('\0')); }

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    if (!part.empty() && part != ".") parts.push_back(part);
  }
  return parts;
}

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return sys_failure("write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

}  // namespace

Result<std::string> safe_entry_name(std::string_view name) {
  if (name.starts_with('/')) return refused(name, "an absolute name");
  if (name.find('\0') != std::string_view::npos) return refused(name, "a name with a NUL");
  const auto parts = parts_of(name);
  if (parts.size() > kTarDepthMax || name.size() > kPathMax)
    return refused(name, "which lies too deep");
  std::string out;
  for (const std::string_view part : parts) {
    if (part == "..") return refused(name, "a name that leads out");
    if (part.size() > kNameMax) return refused(name, "a name that is too long");
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

// A ".." behind a name could follow another link first and end elsewhere than its text says; so
// they may only lead.
bool is_safe_link(std::string_view name, std::string_view target) {
  if (target.empty() || target.starts_with('/') || target.size() > kPathMax ||
      target.find('\0') != std::string_view::npos)
    return false;
  auto climb = static_cast<std::ptrdiff_t>(parts_of(name).size()) - 1;
  bool leading = true;
  for (const std::string_view part : parts_of(target)) {
    if (part != "..") {
      leading = false;
    } else if (!leading || --climb < 0) {
      return false;
    }
  }
  return true;
}

Result<void> Unpacker::take(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::size_t used = 0;
    switch (state_) {
      case State::End:
        return {};  // what follows the end of an archive means nothing
      case State::Header: {
        used = std::min(bytes.size(), kTarBlock - block_size_);
        std::memcpy(block_.data() + block_size_, bytes.data(), used);
        block_size_ += used;
        if (block_size_ == kTarBlock) {
          block_size_ = 0;
          TRY(on_header());
        }
        break;
      }
      case State::Extension: {
        used = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), left_));
        extension_.append(reinterpret_cast<const char*>(bytes.data()), used);
        left_ -= used;
        if (left_ == 0) TRY(on_extension());
        break;
      }
      case State::Content: {
        used = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), left_));
        TRY(write_all(file_.get(), bytes.first(used)));
        left_ -= used;
        if (left_ == 0) TRY(end_content());
        break;
      }
      case State::Padding: {
        used = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), left_));
        left_ -= used;
        if (left_ == 0) state_ = State::Header;
        break;
      }
    }
    bytes = bytes.subspan(used);
  }
  return {};
}

Result<void> Unpacker::finish() {
  const bool between = state_ == State::Header && block_size_ == 0;
  if (state_ == State::End || (between && zero_block_)) return {};
  return malformed("it ends in the middle");
}

void Unpacker::skip_padding(std::uint64_t size) {
  left_ = (kTarBlock - size % kTarBlock) % kTarBlock;
  state_ = left_ == 0 ? State::Header : State::Padding;
}

Result<Unpacker::Header> Unpacker::read_header() const {
  const std::string_view block(block_.data(), block_.size());
  if (block.substr(257, 5) != "ustar") return malformed("a header without its mark");
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i)
    sum += i >= 148 && i < 156 ? std::uint64_t{' '} : static_cast<unsigned char>(block[i]);
  if (octal(block.substr(148, 8)) != sum) return malformed("a header with a wrong checksum");
  const auto size = octal(block.substr(124, 12));
  const auto mode = octal(block.substr(100, 8));
  if (!size || !mode) return malformed("a number that is none");
  Header header;
  header.type = block[156] == '\0' ? '0' : block[156];
  header.size = *size;
  header.mode = static_cast<unsigned>(*mode & 0777U);  // never set-id
  header.mtime = static_cast<std::int64_t>(octal(block.substr(136, 12)).value_or(0));
  header.name = text_of(block.substr(0, 100));
  if (const auto prefix = text_of(block.substr(345, 155)); !prefix.empty())
    header.name = fmt::format("{}/{}", prefix, header.name);
  header.link = text_of(block.substr(157, 100));
  return header;
}

Result<void> Unpacker::on_header() {
  if (std::ranges::all_of(block_, [](char c) { return c == '\0'; })) {
    if (zero_block_) state_ = State::End;
    zero_block_ = true;
    return {};
  }
  if (zero_block_) return malformed("a header behind the end");
  Header header = TRY(read_header());
  if (std::string_view("xgLK").find(header.type) == std::string_view::npos)
    return on_entry(std::move(header));
  if (header.size > kTarExtensionMax) return malformed("a name that is too long");
  extension_type_ = header.type;
  extension_.clear();
  left_ = header.size;
  padding_ = static_cast<std::size_t>(header.size);
  state_ = State::Extension;
  if (left_ == 0) return on_extension();
  return {};
}

Result<void> Unpacker::on_extension() {
  skip_padding(padding_);
  if (extension_type_ == 'x') return take_records(extension_);
  if (extension_type_ == 'L') next_name_ = text_of(extension_);
  if (extension_type_ == 'K') next_link_ = text_of(extension_);
  return {};  // 'g' speaks of the whole archive, and says nothing that we use
}

// "27 path=some/long/name…\n", one behind the other; the number counts the whole record.
Result<void> Unpacker::take_records(std::string_view records) {
  while (!records.empty()) {
    std::size_t size = 0;
    const auto [end, code] = std::from_chars(records.data(), records.data() + records.size(), size);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (code != std::errc() || size <= digits + 1 || size > records.size() ||
        records[digits] != ' ' || records[size - 1] != '\n')
      return malformed("an extended header that cannot be read");
    const std::string_view record = records.substr(digits + 1, size - digits - 2);
    records.remove_prefix(size);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return malformed("an extended header without a value");
    const std::string_view value = record.substr(equals + 1);
    const std::string_view key = record.substr(0, equals);
    if (key == "path") next_name_ = value;
    if (key == "linkpath") next_link_ = value;
    if (key == "size") {
      std::uint64_t bytes = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size())
        return malformed("a size that is none");
      next_size_ = bytes;
    }
  }
  return {};
}

Result<void> Unpacker::on_entry(Header header) {
  if (next_name_) header.name = std::move(*next_name_);
  if (next_link_) header.link = std::move(*next_link_);
  if (next_size_) header.size = *next_size_;
  next_name_.reset();
  next_link_.reset();
  next_size_.reset();
  if (++entries_ > limits_.entries_max)
    return failure(Errc::TooLarge,
                   fmt::format("the archive has more than {} entries", limits_.entries_max));
  const std::string name = TRY(safe_entry_name(header.name));
  switch (header.type) {
    case '0':
    case '7':
      return make_file(name, header);
    case '5':
      return make_folders(name, header.mode);
    case '2':
      return make_link(name, header);
    case '1':
      return refused(header.name, "a hard link");
    default:
      return refused(header.name, "neither a file nor a folder nor a link");
  }
}

Result<void> Unpacker::make_file(const std::string& name, const Header& header) {
  if (name.empty()) return refused(header.name, "a file without a name");
  if (header.size > limits_.bytes_max - bytes_) {
    return failure(Errc::TooLarge,
                   fmt::format("the archive has more than {} bytes", limits_.bytes_max));
  }
  bytes_ += header.size;
  const int parent = TRY(parent_of(name));
  const std::string last = name.substr(name.rfind('/') + 1);
  // What is there is replaced, never written through: it may be a link or have other names.
  if (::unlinkat(parent, last.c_str(), 0) != 0 && errno != ENOENT)
    return sys_failure("replace " + policy::printable(name), errno);
  file_ = TRY(
      sys::open_at(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, header.mode | 0600U));
  file_mtime_ = header.mtime;
  left_ = header.size;
  padding_ = static_cast<std::size_t>(header.size % kTarBlock);
  state_ = State::Content;
  if (left_ == 0) return end_content();
  return {};
}

Result<void> Unpacker::end_content() {
  const timespec times[2] = {{0, UTIME_OMIT}, {file_mtime_, 0}};
  (void)::futimens(file_.get(), times);  // a date is a courtesy
  file_ = UniqueFd();
  skip_padding(padding_);
  return {};
}

Result<void> Unpacker::make_link(const std::string& name, const Header& header) {
  if (name.empty() || !is_safe_link(name, header.link)) {
    return refused(header.name, fmt::format("a link to {}, which leads out of the folder",
                                            policy::in_quotes(header.link)));
  }
  const int parent = TRY(parent_of(name));
  const std::string last = name.substr(name.rfind('/') + 1);
  if (::unlinkat(parent, last.c_str(), 0) != 0 && errno != ENOENT)
    return sys_failure("replace " + policy::printable(name), errno);
  if (::symlinkat(header.link.c_str(), parent, last.c_str()) != 0)
    return sys_failure("link " + policy::printable(name), errno);
  return {};
}

Result<int> Unpacker::parent_of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return folder_.get();
  const std::string path = name.substr(0, slash);
  if (parent_ && path == parent_path_) return parent_.get();
  TRY(make_folders(path, 0777));
  parent_ = TRY_IN(policy::printable(path),
                   sys::open_beneath(folder_.get(), path, O_RDONLY | O_DIRECTORY));
  parent_path_ = path;
  return parent_.get();
}

Result<void> Unpacker::make_folders(const std::string& path, unsigned mode) {
  UniqueFd held;
  int at = folder_.get();
  for (const std::string_view part : parts_of(path)) {
    const std::string name(part);
    TRY(sys::make_dir(at, name, mode | 0700U, sys::Existing::Accept));
    // A link that stands in its place is not followed.
    held = TRY_IN(policy::printable(path), sys::open_beneath(at, name, O_RDONLY | O_DIRECTORY));
    at = held.get();
  }
  return {};
}

}  // namespace caisson::cli
