#include "cli/client_tar.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "cli/client_untar.h"
#include "policy/wording.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

constexpr std::uint64_t kOctalSizeMax = 0777'7777'7777;  // eleven digits

void put_octal(std::string& block, std::size_t at, std::size_t width, std::uint64_t value) {
  const std::string digits = fmt::format("{:0{}o}", value, width - 1);
  block.replace(at, width - 1, digits);
}

std::string one_header(std::string_view name, std::string_view link, char type, unsigned mode,
                       std::int64_t mtime, std::uint64_t size) {
  std::string block(kTarBlock, '\0');
  block.replace(0, std::min<std::size_t>(name.size(), 100), name.substr(0, 100));
  put_octal(block, 100, 8, mode & 0777U);
  put_octal(block, 108, 8, 0);
  put_octal(block, 116, 8, 0);
  put_octal(block, 124, 12, std::min(size, kOctalSizeMax));
  put_octal(block, 136, 12,
            std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(mtime, 0)), kOctalSizeMax));
  block[156] = type;
  block.replace(157, std::min<std::size_t>(link.size(), 100), link.substr(0, 100));
  block.replace(257, 8, std::string_view("ustar\00000", 8));
  std::uint64_t sum = std::uint64_t{8} * ' ';
  for (std::size_t i = 0; i < block.size(); ++i)
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(block[i]);
  block.replace(148, 8, fmt::format("{:06o}{} ", sum, '\0'));
  return block;
}

// The number in front counts the whole record, itself included.
std::string record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;  // ' ', '=' and '\n'
  std::size_t size = rest + 1;
  while (fmt::to_string(size).size() + rest != size) size = fmt::to_string(size).size() + rest;
  return fmt::format("{} {}={}\n", size, key, value);
}

void pad(std::string& bytes) {
  bytes.append((kTarBlock - bytes.size() % kTarBlock) % kTarBlock, '\0');
}

}  // namespace

std::string tar_header(const std::string& name, const std::string& link, char type, unsigned mode,
                       std::int64_t mtime, std::uint64_t size) {
  std::string records;
  if (name.size() > 100) records += record("path", name);
  if (link.size() > 100) records += record("linkpath", link);
  if (size > kOctalSizeMax) records += record("size", fmt::to_string(size));
  std::string out;
  if (!records.empty()) {
    out = one_header("PaxHeaders", "", 'x', 0644, 0, records.size()) + records;
    pad(out);
  }
  return out + one_header(name, link, type, mode, mtime, size);
}

Result<Packer> Packer::scan(const std::string& folder) {
  Packer packer(TRY(sys::open_at(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY)));
  packer.folders_.emplace_back();
  while (!packer.folders_.empty()) {
    const std::string path = std::move(packer.folders_.back());
    packer.folders_.pop_back();
    const auto depth = static_cast<std::size_t>(std::ranges::count(path, '/'));
    TRY_IN(policy::printable(path.empty() ? folder : path), packer.scan_folder(path, depth));
  }
  return packer;
}

Result<void> Packer::scan_folder(const std::string& path, std::size_t depth) {
  if (depth >= kPackDepthMax)
    return failure(Errc::TooLarge, fmt::format("more than {} folders deep", kPackDepthMax));
  UniqueFd held;
  int at = folder_.get();
  if (!path.empty()) {
    held = TRY(sys::open_beneath(folder_.get(), path, O_RDONLY | O_DIRECTORY));
    at = held.get();
  }
  auto names = TRY(sys::list_dir(at, kPackEntriesMax));
  std::ranges::sort(names);
  for (const std::string& name : names)
    TRY_IN(policy::printable(name), add_item(at, path.empty() ? name : path + "/" + name, name));
  return {};
}

Result<void> Packer::add_item(int folder, const std::string& path, const std::string& name) {
  if (items_.size() >= kPackEntriesMax)
    return failure(Errc::TooLarge, fmt::format("more than {} files", kPackEntriesMax));
  struct stat info{};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return sys_failure("stat", errno);
  Item item{path, "", '0', info.st_mode & 0777U, info.st_mtim.tv_sec, 0};
  if (S_ISDIR(info.st_mode)) {
    item.type = '5';
    folders_.push_back(path);
    item.name += '/';
  } else if (S_ISLNK(info.st_mode)) {
    char target[PATH_MAX];
    const ssize_t size = ::readlinkat(folder, name.c_str(), target, sizeof(target));
    if (size < 0) return sys_failure("read link", errno);
    item.type = '2';
    item.link.assign(target, static_cast<std::size_t>(size));
  } else if (S_ISREG(info.st_mode)) {
    item.size = static_cast<std::uint64_t>(info.st_size);
    content_bytes_ += item.size;
  } else {
    left_out_.push_back(path);
    return {};
  }
  items_.push_back(std::move(item));
  return {};
}

Result<void> Packer::begin_item() {
  Item& item = items_[next_++];
  if (item.type == '0') {
    // O_NONBLOCK: if a fifo has taken its place meanwhile, opening must not wait for a writer.
    file_ = TRY(sys::open_beneath(folder_.get(), item.name, O_RDONLY | O_NONBLOCK));
    struct stat info{};
    if (::fstat(file_.get(), &info) != 0) return sys_failure("stat", errno);
    if (!S_ISREG(info.st_mode)) return failure(Errc::Busy, "is not a file any more");
    item.size = static_cast<std::uint64_t>(info.st_size);
    file_size_ = item.size;
    file_left_ = item.size;
  }
  ready_ = tar_header(item.name, item.link, item.type, item.mode, item.mtime, item.size);
  ready_at_ = 0;
  if (file_ && file_left_ == 0) file_ = UniqueFd();
  return {};
}

Result<std::size_t> Packer::read_content(std::span<std::byte> out) {
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), file_left_));
  const ssize_t got = ::read(file_.get(), out.data(), want);
  if (got < 0) return sys_failure("read", errno);
  if (got == 0) return failure(Errc::Busy, "became shorter while it was read");
  file_left_ -= static_cast<std::size_t>(got);
  content_sent_ += static_cast<std::size_t>(got);
  if (file_left_ == 0) {
    file_ = UniqueFd();
    ready_.assign(static_cast<std::size_t>((kTarBlock - file_size_ % kTarBlock) % kTarBlock), '\0');
    ready_at_ = 0;
  }
  return static_cast<std::size_t>(got);
}

Result<std::size_t> Packer::read(std::span<std::byte> out) {
  std::size_t filled = 0;
  while (filled < out.size()) {
    const auto rest = out.subspan(filled);
    if (ready_at_ < ready_.size()) {
      const std::size_t part = std::min(rest.size(), ready_.size() - ready_at_);
      std::memcpy(rest.data(), ready_.data() + ready_at_, part);
      ready_at_ += part;
      filled += part;
    } else if (file_) {
      filled += TRY_IN(policy::printable(items_[next_ - 1].name), read_content(rest));
    } else if (next_ < items_.size()) {
      const std::string name = policy::printable(items_[next_].name);
      TRY_IN(name, begin_item());
    } else if (!ended_) {
      ended_ = true;
      ready_.assign(2 * kTarBlock, '\0');
      ready_at_ = 0;
    } else {
      break;
    }
  }
  return filled;
}

}  // namespace caisson::cli
