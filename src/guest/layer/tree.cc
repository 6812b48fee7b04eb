#include "guest/layer/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "guest/layer/layer.h"

namespace caisson::layer {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kRetriesMax = 64;  // a rename beside us makes openat2 say EAGAIN

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

Result<Folder> read_folder(int fd) {
  // A descriptor of its own: reading moves an offset that copies of one share.
  UniqueFd own(::openat(fd, ".", kFolderFlags));
  if (!own) return sys_failure("open a folder", errno);
  Folder folder(::fdopendir(own.get()));
  if (!folder) return sys_failure("read a folder", errno);
  (void)own.release();
  return folder;
}

bool is_dots(std::string_view name) { return name == "." || name == ".."; }

Result<void> check_component(std::string_view path, std::string_view part) {
  if (part == "..") {
    return failure(Errc::InvalidArgument,
                   "the name '" + std::string(path) + "' leads upward by '..'");
  }
  if (part.size() > kNameBytesMax) {
    return failure(Errc::InvalidArgument, "a part of a name has " + std::to_string(part.size()) +
                                              " bytes, at most " + std::to_string(kNameBytesMax));
  }
  return {};
}

// The names of all attributes of user.*, as the kernel lists them: each ends in a NUL.
Result<std::string> attribute_names(int fd) {
  std::string names(kAttributeBytesMax, '\0');
  const ssize_t got = ::flistxattr(fd, names.data(), names.size());
  if (got < 0 && errno == ENOTSUP) return std::string();
  if (got < 0) return sys_failure("list the attributes of a file", errno);
  names.resize(static_cast<std::size_t>(got));
  return names;
}

Result<void> take_attribute(int fd, const std::string& name, Attributes& into) {
  constexpr std::array<std::string_view, 4> kForeign{
      "user.overlay.redirect", "user.overlay.metacopy", "user.overlay.whiteout",
      "user.overlay.verity"};
  if (std::ranges::find(kForeign, name) != kForeign.end()) {
    return failure(Errc::InvalidArgument,
                   "a layer has the mark " + name + ", which none of ours has");
  }
  const bool opaque = name == kOpaqueName;
  if (!opaque && !is_kept_attribute(name)) return {};
  std::string value(kAttributeBytesMax, '\0');
  const ssize_t got = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
  if (got < 0) return sys_failure("read the attribute " + name, errno);
  value.resize(static_cast<std::size_t>(got));
  if (opaque) {
    if (value != "y") return failure(Errc::InvalidArgument, "a folder is opaque in an unknown way");
    into.opaque = true;
    return {};
  }
  if (into.kept.size() == kAttributesMax) {
    return failure(Errc::TooLarge,
                   "a file has more than " + std::to_string(kAttributesMax) + " attributes");
  }
  into.kept.push_back({name, std::move(value)});
  return {};
}

Result<void> remove_tree(int parent, const std::string& name, std::size_t depth);

Result<void> remove_all_in(int folder, std::size_t depth) {
  if (depth > kDepthMax) return failure(Errc::InvalidArgument, "a tree is too deep to be removed");
  const Folder reading = TRY(read_folder(folder));
  for (;;) {
    errno = 0;
    const dirent* item = ::readdir(reading.get());
    if (item == nullptr) break;
    if (is_dots(item->d_name)) continue;
    TRY(remove_tree(folder, item->d_name, depth + 1));
  }
  if (errno != 0) return sys_failure("read a folder", errno);
  return {};
}

Result<void> remove_tree(int parent, const std::string& name, std::size_t depth) {
  if (::unlinkat(parent, name.c_str(), 0) == 0) return {};
  if (errno != EISDIR && errno != EPERM) return sys_failure("remove '" + name + "'", errno);
  {
    const UniqueFd folder = TRY(open_folder(parent, name));
    TRY(remove_all_in(folder.get(), depth));
  }
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) return {};
  return sys_failure("remove the folder '" + name + "'", errno);
}

}  // namespace

Result<std::vector<std::string>> split_path(std::string_view path) {
  if (path.size() > kPathBytesMax) {
    return failure(Errc::InvalidArgument, "a name has " + std::to_string(path.size()) +
                                              " bytes, at most " + std::to_string(kPathBytesMax));
  }
  if (path.find('\0') != std::string_view::npos) {
    return failure(Errc::InvalidArgument, "a name has a NUL in it");
  }
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    TRY(check_component(path, part));
    parts.emplace_back(part);
  }
  if (parts.size() > kDepthMax) {
    return failure(Errc::InvalidArgument, "a name is " + std::to_string(parts.size()) +
                                              " folders deep, at most " +
                                              std::to_string(kDepthMax));
  }
  return parts;
}

Result<UniqueFd> open_path(int root, const std::string& path, Links links) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  how.resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  how.resolve |= links == Links::InRoot ? std::uint64_t{RESOLVE_IN_ROOT}
                                        : std::uint64_t{RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  const char* name = path.empty() ? "." : path.c_str();
  for (int tries = 0;; ++tries) {
    const long fd = ::syscall(SYS_openat2, root, name, &how, sizeof(how));
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno != EAGAIN || tries == kRetriesMax) return sys_failure("open '" + path + "'", errno);
  }
}

Result<std::optional<UniqueFd>> find_folder(int parent, const std::string& name) {
  if (parent < 0) return std::nullopt;
  UniqueFd fd(::openat(parent, name.c_str(), kFolderFlags));
  if (fd) return fd;
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return std::nullopt;
  return sys_failure("open the folder '" + name + "'", errno);
}

Result<UniqueFd> open_folder(int parent, const std::string& name) {
  UniqueFd fd(::openat(parent, name.c_str(), kFolderFlags));
  if (!fd) return sys_failure("open the folder '" + name + "'", errno);
  return fd;
}

Result<UniqueFd> open_file(int parent, const std::string& name) {
  UniqueFd fd(::openat(parent, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return sys_failure("open '" + name + "'", errno);
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0) return sys_failure("look at '" + name + "'", errno);
  if (!S_ISREG(facts.st_mode))
    return failure(Errc::InvalidArgument, "'" + name + "' is not a file");
  return fd;
}

Result<std::optional<struct stat>> find_entry(int parent, const std::string& name) {
  if (parent < 0) return std::nullopt;
  struct stat facts{};
  if (::fstatat(parent, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) return facts;
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  return sys_failure("look at '" + name + "'", errno);
}

Result<std::string> read_link(int parent, const std::string& name) {
  std::string target(kPathBytesMax + 1, '\0');
  const ssize_t got = ::readlinkat(parent, name.c_str(), target.data(), target.size());
  if (got < 0) return sys_failure("read the link '" + name + "'", errno);
  target.resize(static_cast<std::size_t>(got));
  return target;
}

Result<std::vector<std::string>> list_folder(int folder, std::uint64_t names_max) {
  const Folder reading = TRY(read_folder(folder));
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* item = ::readdir(reading.get());
    if (item == nullptr) break;
    if (is_dots(item->d_name)) continue;
    if (names.size() >= names_max) {
      return failure(Errc::TooLarge,
                     "a folder has more than " + std::to_string(names_max) + " entries");
    }
    names.emplace_back(item->d_name);
  }
  if (errno != 0) return sys_failure("read a folder", errno);
  std::ranges::sort(names);
  return names;
}

Result<void> remove_entry(int parent, const std::string& name) {
  return remove_tree(parent, name, 0);
}

Result<void> remove_content(int folder) { return remove_all_in(folder, 0); }

bool is_whiteout(const struct stat& facts) noexcept {
  return S_ISCHR(facts.st_mode) && facts.st_rdev == 0;
}

// A character device 0:0 opens nothing, so making one needs no privilege.
Result<void> make_whiteout(int parent, const std::string& name) {
  if (::mknodat(parent, name.c_str(), S_IFCHR | 0600, makedev(0, 0)) != 0) {
    return sys_failure("make the whiteout '" + name + "'", errno);
  }
  return set_entry_owner(parent, name, 0, 0);
}

Result<void> mark_opaque(int folder) {
  if (::fsetxattr(folder, kOpaqueName, "y", 1, 0) == 0) return {};
  return sys_failure("mark a folder opaque", errno);
}

bool is_kept_attribute(std::string_view name) noexcept {
  return name.starts_with("user.") && !name.starts_with("user.overlay.") &&
         name.size() > std::string_view("user.").size() && name.size() <= kNameBytesMax;
}

Result<Attributes> read_attributes(int fd) {
  Attributes result;
  const std::string names = TRY(attribute_names(fd));
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find('\0', at), names.size());
    TRY(take_attribute(fd, names.substr(at, end - at), result));
    at = end + 1;
  }
  std::ranges::sort(result.kept, {}, &Attribute::name);
  return result;
}

Result<void> write_attributes(int fd, std::span<const Attribute> attributes) {
  for (const Attribute& one : attributes) {
    if (::fsetxattr(fd, one.name.c_str(), one.value.data(), one.value.size(), 0) != 0) {
      return sys_failure("set the attribute " + one.name, errno);
    }
  }
  return {};
}

Result<void> set_owner(int fd, std::uint32_t uid, std::uint32_t gid, std::uint32_t mode) {
  if (::fchown(fd, uid, gid) != 0) return sys_failure("set an owner", errno);
  // Only a member of the group may set this bit, and we are a member of none but our own.
  const bool needs_group = (mode & S_ISGID) != 0;
  const int own = needs_group ? ::setfsgid(gid) : 0;
  const int failed = ::fchmod(fd, mode & 07777U) == 0 ? 0 : errno;
  if (needs_group) ::setfsgid(static_cast<gid_t>(own));
  if (failed != 0) return sys_failure("set a mode", failed);
  return {};
}

Result<void> set_times(int fd, const struct timespec& modified) {
  const std::array<struct timespec, 2> times{modified, modified};
  if (::futimens(fd, times.data()) == 0) return {};
  return sys_failure("set a time", errno);
}

Result<void> set_entry_owner(int parent, const std::string& name, std::uint32_t uid,
                             std::uint32_t gid) {
  if (::fchownat(parent, name.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) == 0) return {};
  return sys_failure("set the owner of '" + name + "'", errno);
}

Result<void> set_entry_times(int parent, const std::string& name, const struct timespec& modified) {
  const std::array<struct timespec, 2> times{modified, modified};
  if (::utimensat(parent, name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0) return {};
  return sys_failure("set the time of '" + name + "'", errno);
}

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return sys_failure("write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return {};
}

}  // namespace caisson::layer
