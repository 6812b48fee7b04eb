// P4: /sys is absent, and no cgroup file can be reached.
#include <gtest/gtest.h>

#include "tests/security/attack.h"

namespace caisson::test {
namespace {

TEST(P04, SysIsEmpty) {
  Box box;
  EXPECT_EQ(box.sh("ls -A /sys").out, "");
  const auto look = [] { return std::filesystem::is_empty("/sys") ? 0 : 1; };
  EXPECT_EQ(in_namespaces(box.init_pid(), CLONE_NEWNS, look), 0) << "not even root finds anything";
}

TEST(P04, NoKernelFileSystemIsMounted) {
  Box box([](control::LocalSpec& local) { local.spec.request.root = engine::RootMode::Writable; });
  std::istringstream table(read_text("/proc/" + std::to_string(box.init_pid()) + "/mountinfo"));
  const std::set<std::string> harmless = {"overlay",  "proc",  "tmpfs", "devpts", "ext4",
                                          "ext3",     "ext2",  "xfs",   "btrfs",  "f2fs",
                                          "squashfs", "erofs", "zfs"};
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line.substr(line.find(" - ") + 3));
    std::string type;
    words >> type;
    EXPECT_TRUE(harmless.contains(type)) << line;
  }
}

constexpr const char* kGroupAttacks = R"(
names = ('release_agent', 'notify_on_release', 'memory.max', 'memory.limit_in_bytes', 'cgroup.procs', 'tasks',
         'devices.allow', 'cgroup.kill', 'cgroup.subtree_control', 'pids.max', 'cpu.max')
roots = ('/sys/fs/cgroup', '/sys/fs/cgroup/unified', '/sys/fs/cgroup/memory', '/sys/fs/cgroup/devices', '/cgroup',
         '/proc/1/root/sys/fs/cgroup', '/proc/1/fd/5', '/proc/self/fd/5', '/proc/1/cwd')
for root in roots:
    attempt('mkdir ' + root, lambda: os.mkdir(root + '/x'))
    for name in names:
        attempt(f'write {root}/{name}', lambda: write(f'{root}/{name}', '1', os.O_WRONLY))
for name in ('/sys/firmware', '/sys/kernel/security', '/sys/kernel/debug', '/sys/class/dmi/id/product_serial',
             '/sys/class/powercap', '/sys/kernel/uevent_helper', '/sys/power/state', '/sys/bus', '/sys/module',
             '/sys/kernel/mm/ksm/run', '/sys/devices/system/cpu/cpu0/online', '/sys/kernel/vmcoreinfo'):
    attempt('see ' + name, lambda: os.stat(name))
for kind in (b'cgroup', b'cgroup2', b'sysfs', b'securityfs', b'debugfs', b'tracefs', b'configfs', b'efivarfs'):
    attempt(f'mount {kind}', lambda: call(165, b'none', b'/tmp', kind, 0, b'memory' if kind == b'cgroup' else None))
    attempt(f'fsopen {kind}', lambda: call(430, kind, 0))
found = []
for top, folders, files in os.walk('/'):
    if top == '/':
        folders[:] = [f for f in folders if f not in ('proc', 'usr')]
    found += [os.path.join(top, f) for f in files if f in names]
say('walk', 'WORKED ' + ' '.join(found) if found else 'ENOENT')
)";

TEST(P04, NoGroupFileIsReached) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box([&](control::LocalSpec& local) {
      as_user(uid)(local);
      local.spec.request.root = engine::RootMode::Writable;
    });
    expect_all_refused(box.python(attack(kGroupAttacks)), 120);
  }
}

// A name of a group in /proc/self/cgroup would say where the sandbox lies on the host.
TEST(P04, GroupNamesBeginAtTheSandbox) {
  Box box;
  const auto result = box.sh("cat /proc/self/cgroup");
  std::istringstream lines(result.out);
  int seen = 0;
  for (std::string line; std::getline(lines, line); ++seen) {
    const std::string path = line.substr(line.find(':', line.find(':') + 1) + 1);
    EXPECT_TRUE(path.starts_with("/")) << line;
    EXPECT_EQ(path.find(".."), std::string::npos) << line;
    EXPECT_EQ(path.find(box.id()), std::string::npos) << line;
    EXPECT_LE(path.size(), 8U) << line;  // "/", or the group of one exec
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace caisson::test
