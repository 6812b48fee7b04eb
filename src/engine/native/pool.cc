#include "engine/native/pool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/id.h"
#include "engine/native/slots.h"
#include "sys/btrfs.h"
#include "sys/file.h"
#include "sys/loop_device.h"
#include "sys/mount.h"
#include "sys/namespace.h"
#include "sys/raw.h"
#include "sys/spawn.h"

namespace caisson::engine::native {
namespace {

constexpr const char* kFolder = "store";
constexpr const char* kFile = "store.img";
constexpr const char* kFileMaking = "store.img.making";
constexpr const char* kTrash = "trash/";
constexpr std::size_t kRemovalsMax = 8;
constexpr std::size_t kReadyAhead = 3;
constexpr std::uint64_t kReserveBytes = 64ULL << 20U;  // below it nothing new is begun
constexpr std::uint64_t kMiBMask = (1ULL << 20U) - 1;
constexpr std::uint64_t kFileBytesMin = 256ULL << 20U;
constexpr std::uint64_t kFileBytesDefaultMax = 32ULL << 30U;
constexpr const char* kFormatter = "mkfs.btrfs";

Result<std::uint64_t> free_bytes(int fd) {
  struct statvfs facts{};
  if (::fstatvfs(fd, &facts) != 0) return sys_failure("statvfs", errno);
  return static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
}

Result<void> format(const std::string& path) {
  const std::array<sys::HandedFd, 3> quiet{
      {{"/dev/null", -1, 0}, {"/dev/null", -1, 1}, {"/dev/null", -1, 2}}};
  auto child = sys::spawn(kFormatter, {"-q", "-f", "-m", "single", "-d", "single", path}, quiet,
                          sys::Session::Own);
  if (!child) {
    return failure(Errc::Unsupported,
                   std::string(kFormatter) + " is not installed (Debian: btrfs-progs)");
  }
  const sys::ExitStatus ended = TRY(child->wait());
  if (ended.signal != 0 || ended.code != 0)
    return failure(Errc::Internal, std::string(kFormatter) + " failed");
  return {};
}

// Under another name until it is whole: a launcher that dies here leaves nothing that is used.
Result<void> make_file(int state, std::uint64_t wished) {
  const std::uint64_t free = TRY(free_bytes(state));
  const std::uint64_t bytes =
      wished != 0 ? wished : std::min<std::uint64_t>((free / 4) & ~kMiBMask, kFileBytesDefaultMax);
  if (bytes < kFileBytesMin || bytes > free) {
    return failure(Errc::Exhausted, "the state directory has " + std::to_string(free >> 20U) +
                                        " MiB free; a store needs " +
                                        std::to_string(std::max(bytes, kFileBytesMin) >> 20U));
  }
  (void)::unlinkat(state, kFileMaking, 0);
  const UniqueFd file =
      TRY(sys::open_at(state, kFileMaking, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  const auto fill = [&]() -> Result<void> {
    if (::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) != 0)
      return sys_failure("take the space of the store", errno);
    TRY(format("/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.get())));
    if (::fsync(file.get()) != 0) return sys_failure("write the store", errno);
    if (::renameat(state, kFileMaking, state, kFile) != 0)
      return sys_failure("name the store", errno);
    return {};
  };
  auto filled = fill();
  if (!filled) (void)::unlinkat(state, kFileMaking, 0);
  return filled;
}

Result<void> own(int dir, const std::string& path) {
  if (::fchownat(dir, path.c_str(), kStoreBase, kStoreBase, AT_SYMLINK_NOFOLLOW) != 0)
    return sys_failure("own '" + path + "'", errno);
  return {};
}

struct Split {
  std::string folder;
  std::string name;
};
Split split(const std::string& path) {
  const std::size_t at = path.rfind('/');
  return {path.substr(0, at), path.substr(at + 1)};
}

}  // namespace

Result<void> Pool::mount_file(int state, const Options& options) {
  UniqueFd mount;
  {
    const sys::MountNamespaceVisit visit(options.home_mounts, options.own_mounts);
    if (!visit.inside()) return failure(Errc::Internal, "the host's mounts cannot be visited");
    if (::faccessat(state, kFile, F_OK, 0) != 0) TRY(make_file(state, options.bytes));
    const UniqueFd file = TRY(sys::open_at(state, kFile, O_RDWR | O_NOFOLLOW));
    const sys::LoopDevice device = TRY(sys::attach_loop(file.get()));
    mount = TRY(sys::new_mount("btrfs", {{"source", device.path}, {"nodiscard", ""}},
                               sys::kMountNoSuid | sys::kMountNoDev));
  }
  const UniqueFd inside = TRY(sys::open_at(mount.get(), ".", O_RDONLY | O_DIRECTORY));
  TRY(sys::btrfs_count_bytes(inside.get()));
  const UniqueFd place = TRY(sys::open_at(state, kFolder, O_PATH | O_DIRECTORY));
  if (sys::raw::attach_mount(mount.get(), place.get()) != 0)
    return sys_failure("attach the store", errno);
  return {};
}

Result<Pool> Pool::open(int state, const Options& options) {
  TRY(sys::make_dir(state, kFolder, 0711, sys::Existing::Accept));
  Pool pool;
  pool.root_ = TRY(sys::open_at(state, kFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (TRY(sys::is_btrfs(pool.root_.get())) && TRY(sys::btrfs_counts_bytes(pool.root_.get()))) {
    pool.kind_ = "btrfs";
    pool.limits_ = true;
  } else if (pool.has("layers") && ::faccessat(state, kFile, F_OK, 0) != 0) {
    pool.kind_ = "folder";
    pool.why_ = "it was made without btrfs; export its images, remove it, and start again";
  } else if (auto mounted = mount_file(state, options); mounted) {
    pool.root_ = TRY(sys::open_at(state, kFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    pool.kind_ = "btrfs in a file";
    pool.limits_ = true;
  } else if (::faccessat(state, kFile, F_OK, 0) == 0) {
    return std::unexpected(mounted.error().within("mount the store"));  // its layers are in there
  } else {
    pool.kind_ = "folder";
    pool.why_ = mounted.error().message;
  }
  UniqueFd low = std::move(pool.root_);
  pool.root_ = TRY(sys::park(std::move(low)));
  TRY(pool.prepare());
  return pool;
}

Result<void> Pool::prepare() {
  const sys::ModeMask none(0);
  for (const char* folder :
       {"layers", "sandboxes", "volumes", "making", "memory", "ready", "aside", kEmpty})
    TRY(sys::make_dir(root_.get(), folder, 0711, sys::Existing::Accept));
  TRY(sys::make_dir(root_.get(), "trash", 0700, sys::Existing::Accept));
  TRY(own(root_.get(), kEmpty));
  TRY(put_back());
  TRY(empty("making"));
  TRY(empty("ready"));
  return empty("trash");
}

Result<void> Pool::put_back() {
  const UniqueFd dir = TRY(sys::open_at(root_.get(), "aside", O_RDONLY | O_DIRECTORY));
  for (const std::string& id : TRY(sys::list_dir(dir.get(), kPoolEntriesMax))) {
    if (has(kUppers + id)) TRY(remove(kUppers + id));
    TRY(rename(kAside + id, kUppers + id));
  }
  return {};
}

Result<void> Pool::empty(const std::string& folder) {
  const UniqueFd dir = TRY(sys::open_at(root_.get(), folder, O_RDONLY | O_DIRECTORY));
  for (const std::string& name : TRY(sys::list_dir(dir.get(), kPoolEntriesMax)))
    TRY(remove(folder + "/" + name));
  return {};
}

Result<PoolFacts> Pool::facts() const {
  PoolFacts facts;
  facts.kind = kind_;
  facts.why = why_;
  facts.limits = facts.live_snapshots = limits_;
  struct statvfs space{};
  if (::fstatvfs(root_.get(), &space) != 0) return sys_failure("statvfs", errno);
  facts.bytes = static_cast<std::uint64_t>(space.f_blocks) * space.f_frsize;
  facts.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  return facts;
}

Result<std::string> Pool::make_ready(std::uint64_t bytes) {
  if (!limits_ && bytes != 0) {
    return failure(Errc::Unsupported,
                   "a limit for files on disk cannot be held here: " + why_ +
                       ". Install btrfs-progs, or put the state directory on a btrfs that counts "
                       "bytes");
  }
  std::uint64_t free = TRY(free_bytes(root_.get()));
  // The space of what was removed comes back with a commit, for which the file system would take
  // half a minute: waited for only by who needs it.
  if (removed_ && free < bytes + kReserveBytes) {
    (void)::syncfs(root_.get());
    removed_ = false;
    free = TRY(free_bytes(root_.get()));
  }
  if (free < kReserveBytes) {
    return failure(Errc::Exhausted, "the store has " + std::to_string(free >> 20U) +
                                        " MiB left: remove snapshots, images or volumes");
  }
  asked_ = true;
  std::string path;
  if (ready_.empty()) {
    path = TRY(make_folder("making"));
  } else {
    path = std::move(ready_.back());
    ready_.pop_back();
  }
  if (bytes == 0) return path;
  const auto limited = limit(path, bytes);
  if (limited) return path;
  (void)remove(path);
  return std::unexpected(limited.error());
}

Result<std::string> Pool::make_folder(const std::string& below) {
  const std::string name = TRY(SandboxId::random()).str();
  std::string path = below + "/" + name;
  const UniqueFd dir = TRY(sys::open_at(root_.get(), below, O_RDONLY | O_DIRECTORY));
  {
    const sys::ModeMask mask(022);
    TRY(limits_ ? sys::make_subvolume(dir.get(), name)
                : sys::make_dir(dir.get(), name, 0755, sys::Existing::Refuse));
  }
  const auto owned = own(root_.get(), path);
  if (owned) return path;
  (void)remove(path);
  return std::unexpected(owned.error());
}

bool Pool::stock() {
  if (!asked_ || ready_.size() >= kReadyAhead) return false;
  auto made = make_folder("ready");
  if (made) ready_.push_back(*std::move(made));
  return made.has_value();  // a full disk is told to who asks
}

Result<void> Pool::make(const std::string& path, std::uint64_t bytes) {
  const std::string ready = TRY(make_ready(bytes));
  auto named = rename(ready, path);
  if (!named) (void)remove(ready);
  return named;
}

Result<void> Pool::limit(const std::string& path, std::uint64_t bytes) {
  const UniqueFd dir = TRY(sys::open_at(root_.get(), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return sys::limit_subvolume(dir.get(), bytes);
}

Result<std::uint64_t> Pool::bytes(const std::string& path) const {
  if (!limits_) return 0;
  const UniqueFd dir = TRY(sys::open_at(root_.get(), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return sys::subvolume_bytes(dir.get());
}

bool Pool::has(const std::string& path) const noexcept {
  struct stat facts{};
  return ::fstatat(root_.get(), path.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<void> Pool::rename(const std::string& from, const std::string& to) {
  if (::renameat2(root_.get(), from.c_str(), root_.get(), to.c_str(), RENAME_NOREPLACE) == 0)
    return {};
  if (errno == EEXIST) return failure(Errc::AlreadyExists, "'" + to + "' exists");
  return sys_failure("name '" + to + "'", errno);
}

Result<void> Pool::copy(const std::string& from, const std::string& to) {
  const UniqueFd source = TRY(sys::open_at(root_.get(), from, O_RDONLY | O_DIRECTORY));
  const Split parts = split(to);
  const UniqueFd dir = TRY(sys::open_at(root_.get(), parts.folder, O_RDONLY | O_DIRECTORY));
  return sys::snapshot_subvolume(source.get(), dir.get(), parts.name);
}

Result<void> Pool::remove(const std::string& path) {
  const Split parts = split(path);
  const UniqueFd dir = TRY(sys::open_at(root_.get(), parts.folder, O_RDONLY | O_DIRECTORY));
  if (limits_ && TRY(sys::is_subvolume(dir.get(), parts.name))) {
    if (auto removed = sys::remove_subvolume(dir.get(), parts.name); removed) {
      removed_ = true;
      return removed;
    }
  }
  std::string going = path;
  if (!path.starts_with(kTrash)) {
    going = kTrash + TRY(SandboxId::random()).str();
    TRY(rename(path, going));
  }
  reap();
  if (removals_.size() < kRemovalsMax) return start_removal(going);
  backlog_ = true;
  return {};
}

Result<void> Pool::discard(const std::string& path) {
  const SandboxId name = TRY(SandboxId::random());
  TRY(rename(path, kTrash + name.str()));
  backlog_ = true;
  return {};
}

Result<void> Pool::start_removal(const std::string& path) {
  return start_errand(
      [root = root_.get(), path] { return sys::remove_tree(root, path).has_value(); });
}

Result<void> Pool::start_errand(const std::function<bool()>& errand) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return sys_failure("fork", errno);
  if (pid == 0) {
    const int root = root_.get();
    sys::become_errand(parent, std::span(&root, 1));
    ::_exit(errand() ? 0 : 1);
  }
  UniqueFd pidfd(sys::raw::pidfd_open(pid));
  if (!pidfd) return sys_failure("watch a child", errno);
  removals_.push_back(sys::Child::adopt(pid, TRY(sys::park(std::move(pidfd)))));
  return {};
}

// The space of what was removed comes back with the file system's next commits, which by itself it
// makes every half minute.
void Pool::tidy() {
  reap();
  if (removed_ && removals_.size() < kRemovalsMax) {
    removed_ = false;
    (void)start_errand([root = root_.get()] { return ::syncfs(root) == 0; });
  }
  if (!backlog_ || !removals_.empty()) return;
  backlog_ = false;
  (void)empty("trash");
}

void Pool::reap() {
  std::erase_if(removals_, [](sys::Child& child) {
    const auto ended = child.try_wait();
    return !ended || ended->has_value();
  });
}

Result<std::vector<StoreEntry>> Pool::list() const {
  std::vector<StoreEntry> all;
  const std::pair<const char*, StoreEntry::Kind> kinds[] = {
      {"layers", StoreEntry::Kind::Layer},
      {"sandboxes", StoreEntry::Kind::Upper},
      {"volumes", StoreEntry::Kind::Volume},
      {"memory", StoreEntry::Kind::Memory},
  };
  for (const auto& [folder, kind] : kinds) {
    const UniqueFd dir = TRY(sys::open_at(root_.get(), folder, O_RDONLY | O_DIRECTORY));
    for (const std::string& name : TRY(sys::list_dir(dir.get(), kPoolEntriesMax))) {
      const auto held = bytes(std::string(folder) + "/" + name);
      all.push_back({kind, name, held ? *held : 0});
    }
  }
  return all;
}

}  // namespace caisson::engine::native
