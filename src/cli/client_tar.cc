#include "cli/client_tar.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/tar_header.h"
#include "policy/wording.h"
#include "sys/file.h"

namespace caisson::cli {
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
  ready_ = tar_header({item.name, item.link, item.type, item.mode, item.mtime, item.size});
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
    ready_.assign(tar_padding(file_size_), '\0');
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
