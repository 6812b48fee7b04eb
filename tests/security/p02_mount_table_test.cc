// P2: the mount table is frozen once guest code runs.
#include <gtest/gtest.h>

#include "tests/security/attack.h"
#include "tests/security/shared_host.h"

namespace caisson::test {
namespace {

struct Mount {
  std::string at;
  std::string options;
  std::string line;
};

std::vector<Mount> mounts_of(pid_t init) {
  std::vector<Mount> found;
  std::istringstream table(read_text("/proc/" + std::to_string(init) + "/mountinfo"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string skipped;
    Mount mount;
    words >> skipped >> skipped >> skipped >> skipped >> mount.at >> mount.options;
    mount.line = line;
    found.push_back(std::move(mount));
  }
  return found;
}

std::string table_of(pid_t init) {
  return read_text("/proc/" + std::to_string(init) + "/mountinfo");
}

// A folder of each kind and a writable root: as many kinds of mounts as there are.
void with_folders(control::LocalSpec& local, const HostFolder& folder) {
  show_folder(local, folder.path(), engine::FolderMode::ReadOnly, "/a");
  show_folder(local, folder.path(), engine::FolderMode::PrivateCopy, "/b");
  show_folder(local, folder.path(), engine::FolderMode::Writable, "/c");
}

constexpr const char* kMountAttacks = R"(
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_SHARED = 1, 32, 4096, 8192, 16384, 1 << 20
def mount(source, at, kind, flags, data=None):
    return call(165, source, at, kind, flags, data)
points = [line.split()[4].encode() for line in open('/proc/self/mountinfo')]
for at in points:
    attempt(f'umount {at}', lambda: call(166, at, 0))
    attempt(f'detach {at}', lambda: call(166, at, 2))
    attempt(f'remount {at}', lambda: mount(None, at, None, MS_REMOUNT | MS_BIND))
    attempt(f'reconfigure {at}', lambda: mount(None, at, None, MS_REMOUNT))
    attempt(f'share {at}', lambda: mount(None, at, None, MS_SHARED))
    attempt(f'cover {at}', lambda: mount(b'/tmp', at, None, MS_BIND))
    attempt(f'move {at}', lambda: mount(at, b'/workspace', None, MS_MOVE))
    attempt(f'open_tree {at}', lambda: call(428, -100, at, 1))
    attempt(f'fspick {at}', lambda: call(433, -100, at, 0))
    attempt(f'setattr {at}', lambda: call(442, -100, at, 0, ctypes.create_string_buffer(32), 32))
for kind in (b'tmpfs', b'proc', b'sysfs', b'cgroup', b'cgroup2', b'ext4', b'overlay', b'devpts', b'mqueue',
             b'debugfs', b'fuse', b'bpf', b'devtmpfs', b'binfmt_misc'):
    attempt(f'mount {kind}', lambda: mount(b'none', b'/tmp', kind, 0))
    attempt(f'fsopen {kind}', lambda: call(430, kind, 0))
attempt('fsconfig', lambda: call(431, 0, 6, None, None, 0))
attempt('fsmount', lambda: call(432, 0, 0, 0))
attempt('move_mount', lambda: call(429, 0, b'', -100, b'/tmp', 4))
attempt('open_tree_attr', lambda: call(467, -100, b'/', 1, ctypes.create_string_buffer(32), 32))
attempt('pivot_root', lambda: call(155, b'/tmp', b'/tmp'))
attempt('chroot', lambda: call(161, b'/tmp'))
attempt('unshare', lambda: call(272, 0x00020000))
attempt('unshare user', lambda: call(272, 0x10020000))
attempt('setns', lambda: call(308, os.open('/proc/self/ns/mnt', os.O_RDONLY), 0x00020000))
import subprocess
for tool in (['unshare', '-rm', 'true'], ['mount', '-t', 'tmpfs', 'none', '/tmp'], ['umount', '/proc'],
             ['busybox', 'mount', '-o', 'remount,rw', '/usr'], ['busybox', 'umount', '-l', '/proc/kallsyms']):
    if subprocess.run(tool, capture_output=True).returncode == 0:
        say('tool ' + ' '.join(tool), 'WORKED')
)";

TEST(P02, NoAttackChangesTheTable) {
  const HostFolder folder;
  for (const std::uint32_t uid : {1000U, 0U}) {
    for (const engine::RootMode root : {engine::RootMode::ReadOnly, engine::RootMode::Writable}) {
      Box box([&](control::LocalSpec& local) {
        as_user(uid)(local);
        local.spec.request.root = root;
        with_folders(local, folder);
      });
      const std::string before = table_of(box.init_pid());
      const auto found = expect_all_refused(box.python(attack(kMountAttacks)), 150);
      EXPECT_EQ(found.at("pivot_root"), "EPERM");
      EXPECT_EQ(table_of(box.init_pid()), before);
      EXPECT_EQ(box.sh("cat /proc/self/mountinfo").out, before);
    }
  }
}

TEST(P02, NothingIsSharedAndNothingFollows) {
  const HostFolder folder;
  Box box([&](control::LocalSpec& local) { with_folders(local, folder); });
  for (const Mount& mount : mounts_of(box.init_pid())) {
    const std::string optional = mount.line.substr(0, mount.line.find(" - "));
    EXPECT_EQ(optional.find("shared:"), std::string::npos) << mount.line;
    EXPECT_EQ(optional.find("master:"), std::string::npos) << mount.line;
    EXPECT_EQ(optional.find("propagate_from:"), std::string::npos) << mount.line;
  }
}

// The command line makes its sandboxes by another way than the library: the same claim.
TEST(P02, NothingFollowsInTheCommandLineEither) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const std::string program = caisson_program();
  const std::string& state = state_dir();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl(program.c_str(), "caisson", "run", "--quiet", "--no-folder", "--state-dir",
            state.c_str(), "--", "cat", "/proc/self/mountinfo", nullptr);
    ::_exit(99);
  }
  write_end.reset();
  std::string table;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(read_end.get(), buffer, sizeof(buffer))) > 0;)
    table.append(buffer, static_cast<std::size_t>(got));
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(table.find(" /usr ro"), std::string::npos) << table;
  EXPECT_EQ(table.find("shared:"), std::string::npos) << table;
  EXPECT_EQ(table.find("master:"), std::string::npos) << table;
}

// With every capability of the guest's user namespace, and without filter or Landlock: the kernel
// itself holds what came from outside. This is the wall behind the missing capability.
TEST(P02, EveryMountIsLockedAgainstAllCapabilities) {
  const HostFolder folder;
  Box box([&](control::LocalSpec& local) { with_folders(local, folder); });
  const auto mounts = mounts_of(box.init_pid());
  ASSERT_GT(mounts.size(), 20U);
  const std::string before = table_of(box.init_pid());
  for (const Mount& mount : mounts) {
    const char* at = mount.at.c_str();
    const auto unmount = [&] { return ::umount2(at, MNT_DETACH) == 0 ? 0 : errno; };
    // Not EPERM: the capability is there, and the mount is locked.
    EXPECT_EQ(in_namespaces(box.init_pid(), CLONE_NEWUSER | CLONE_NEWNS, unmount), EINVAL)
        << mount.at;
    if (!mount.options.starts_with("ro")) continue;
    const auto remount = [&] {
      return ::mount(nullptr, at, nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0 ? 0 : errno;
    };
    EXPECT_EQ(in_namespaces(box.init_pid(), CLONE_NEWUSER | CLONE_NEWNS, remount), EPERM)
        << mount.at;
  }
  EXPECT_EQ(table_of(box.init_pid()), before);
}

TEST(P02, EveryMountIsNosuidAndAllButDevicesAreNodev) {
  const HostFolder folder;
  for (const engine::RootMode root : {engine::RootMode::ReadOnly, engine::RootMode::Writable}) {
    Box box([&](control::LocalSpec& local) {
      local.spec.request.root = root;
      with_folders(local, folder);
    });
    for (const Mount& mount : mounts_of(box.init_pid())) {
      EXPECT_NE(mount.options.find("nosuid"), std::string::npos) << mount.line;
      // Masks are the null device and an empty folder of the same small /dev.
      const bool devices = mount.at == "/dev" || mount.at == "/dev/pts" ||
                           mount.line.find(" /null /proc/") != std::string::npos ||
                           mount.line.find(" /pts /proc/") != std::string::npos;
      EXPECT_EQ(mount.options.find("nodev") == std::string::npos, devices) << mount.line;
    }
  }
}

}  // namespace
}  // namespace caisson::test
