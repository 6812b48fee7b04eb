// P7: only harmless devices exist.
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include "tests/security/attack.h"

namespace caisson::test {
namespace {

TEST(P07, DevHoldsWhatWasChosen) {
  Box box;
  EXPECT_EQ(box.sh("ls -A /dev").out,
            "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n");
  EXPECT_EQ(box.sh("cd /dev && stat -c '%n %F %t:%T' full null random tty urandom zero").out,
            "full character special file 1:7\nnull character special file 1:3\n"
            "random character special file 1:8\ntty character special file 5:0\n"
            "urandom character special file 1:9\nzero character special file 1:5\n");
  EXPECT_EQ(box.sh("ls -A /dev/pts").out, "ptmx\n") << "terminals of the host";
}

TEST(P07, TheHarmlessOnesWork) {
  Box box;
  const auto result = box.python(R"(
import errno, os, pty
assert open('/dev/null', 'wb').write(b'x') == 1 and open('/dev/null', 'rb').read() == b''
assert open('/dev/zero', 'rb').read(4) == bytes(4)
assert len(open('/dev/urandom', 'rb').read(8)) == 8 and len(open('/dev/random', 'rb').read(8)) == 8
try:
    os.write(os.open('/dev/full', os.O_WRONLY), b'x')
except OSError as error:
    assert error.errno == errno.ENOSPC
main, other = pty.openpty()
assert os.ttyname(other).startswith('/dev/pts/')
print('fine')
)");
  EXPECT_EQ(result.out, "fine\n") << result.err;
}

constexpr const char* kMakeNodes = R"(
import stat
nodes = {'mem': (stat.S_IFCHR, 1, 1), 'port': (stat.S_IFCHR, 1, 4), 'kmsg': (stat.S_IFCHR, 1, 11),
         'null': (stat.S_IFCHR, 1, 3), 'vda': (stat.S_IFBLK, 254, 0), 'sda': (stat.S_IFBLK, 8, 0),
         'loop0': (stat.S_IFBLK, 7, 0), 'kvm': (stat.S_IFCHR, 10, 232), 'fuse': (stat.S_IFCHR, 10, 229),
         'tun': (stat.S_IFCHR, 10, 200), 'tty0': (stat.S_IFCHR, 4, 0), 'console': (stat.S_IFCHR, 5, 1),
         'ptmx': (stat.S_IFCHR, 5, 2), 'whiteout': (stat.S_IFCHR, 1, 0)}
for place in ('/tmp', '/workspace', '/dev', '/dev/shm', '/run', '/usr', '/'):
    for name, (kind, major, minor) in nodes.items():
        path = f'{place}/made-{name}'
        attempt('mknod ' + path, lambda: os.mknod(path, kind | 0o666, os.makedev(major, minor)))
        attempt('open ' + path, lambda: os.open(path, os.O_RDWR | os.O_NONBLOCK))
for name in ('mem', 'kmem', 'port', 'kmsg', 'kvm', 'fuse', 'net/tun', 'loop-control', 'console', 'tty0', 'tty1',
             'vda', 'sda', 'nvme0n1', 'dm-0', 'mapper/control', 'vhost-net', 'vsock', 'vfio/vfio', 'uinput',
             'input/event0', 'snd/seq', 'dri/card0', 'nvidia0', 'rtc0', 'hpet', 'watchdog', 'cpu/0/msr', 'btrfs-control'):
    attempt('open /dev/' + name, lambda: os.open('/dev/' + name, os.O_RDONLY | os.O_NONBLOCK))
attempt('new entry', lambda: os.open('/dev/entry', os.O_CREAT | os.O_WRONLY))
attempt('replace', lambda: os.rename('/dev/zero', '/dev/null'))
attempt('remove', lambda: os.unlink('/dev/null'))
attempt('controlling terminal', lambda: os.open('/dev/tty', os.O_RDWR))
)";

TEST(P07, NoNodeIsMadeOrOpened) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    for (const engine::RootMode root : {engine::RootMode::ReadOnly, engine::RootMode::Writable}) {
      Box box([&](control::LocalSpec& local) {
        as_user(uid)(local);
        local.spec.request.root = root;
      });
      expect_all_refused(box.python(attack(kMakeNodes)), 200);
    }
  }
}

// Nodes that lie in a folder of the host, as an image or an archive might have put them there.
TEST(P07, NodesInAGrantedFolderDoNotOpen) {
  const HostFolder folder;
  ASSERT_EQ(::mknod(folder.at("null").c_str(), S_IFCHR | 0666, ::makedev(1, 3)), 0);
  ASSERT_EQ(::mknod(folder.at("mem").c_str(), S_IFCHR | 0666, ::makedev(1, 1)), 0);
  ASSERT_EQ(::mknod(folder.at("loop").c_str(), S_IFBLK | 0666, ::makedev(7, 0)), 0);
  for (const char* name : {"null", "mem", "loop"})
    ASSERT_EQ(::chmod(folder.at(name).c_str(), 0666), 0);
  for (const auto mode : {engine::FolderMode::ReadOnly, engine::FolderMode::PrivateCopy,
                          engine::FolderMode::Writable}) {
    for (const std::uint32_t uid : {1000U, 0U}) {
      Box box([&](control::LocalSpec& local) {
        as_user(uid)(local);
        show_folder(local, folder.path(), mode, "/granted");
      });
      const auto found = expect_all_refused(box.python(attack(R"(
for name in ('null', 'mem', 'loop'):
    assert os.path.exists('/granted/' + name)
    attempt('read ' + name, lambda: os.open('/granted/' + name, os.O_RDONLY))
    attempt('write ' + name, lambda: os.open('/granted/' + name, os.O_WRONLY))
)")),
                                            6);
      EXPECT_EQ(found.at("read null"), "EACCES");
    }
  }
}

}  // namespace
}  // namespace caisson::test
