// P1: no host file is readable or writable except what the plan grants.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "tests/security/attack.h"
#include "tests/security/shared_host.h"

namespace caisson::test {
namespace {

using engine::FolderMode;
using engine::RootMode;

struct Guest {
  const char* name;
  std::uint32_t uid;
  RootMode root;
};

class P01 : public testing::TestWithParam<Guest> {
 protected:
  static void as_guest(control::LocalSpec& local) {
    as_user(GetParam().uid)(local);
    local.spec.request.root = GetParam().root;
  }
};
INSTANTIATE_TEST_SUITE_P(Guests, P01,
                         testing::Values(Guest{"User", 1000, RootMode::ReadOnly},
                                         Guest{"Root", 0, RootMode::ReadOnly},
                                         Guest{"RootOfAWritableRoot", 0, RootMode::Writable}),
                         [](const auto& test) { return test.param.name; });

// Every name of the host's root that a path walk could start from, and every walk upwards.
constexpr const char* kLookForNeedles = R"(
needles = os.environ['NEEDLES'].split(':')
starts = ['', '/proc/self/root', '/proc/thread-self/root', '/proc/1/root', '/proc/1/cwd',
          '/usr/../..', '/proc/self/cwd' + '/..' * 40, '/dev/pts/../..', '/tmp/' + '../' * 60]
starts += [f'/proc/{pid}/{link}' for pid in os.listdir('/proc') if pid.isdigit() for link in ('root', 'cwd')]
starts += [f'/proc/self/fd/{fd}/../../..' for fd in range(10)]
for needle in needles:
    for start in starts:
        attempt('path ' + start + needle, lambda: read(start + needle))
for folder in ('/', '/usr', '/proc', '/dev', '/tmp', '/workspace'):
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    for needle in needles:
        attempt(f'at {folder} {needle}', lambda: os.open('../' * 40 + needle, os.O_RDONLY, dir_fd=fd))
# The double chroot: a working folder above the new root would climb past the old one.
os.makedirs('/tmp/jail', exist_ok=True)
outside = os.open('/', os.O_RDONLY)
attempt('chroot', lambda: os.chroot('/tmp/jail'))
attempt('fchdir and climb', lambda: (os.fchdir(outside), [os.chdir('..') for _ in range(40)], read('.' + needles[0])))
names = {os.path.basename(needle) for needle in needles}
found = []
for top, folders, files in os.walk('/'):
    if top == '/':
        folders[:] = [f for f in folders if f not in ('proc', 'usr')]
    found += [os.path.join(top, name) for name in folders + files if name in names]
say('walk', 'WORKED ' + ' '.join(found) if found else 'ENOENT')
)";

TEST_P(P01, HostFileIsNowhere) {
  const HostFolder in_tmp("/tmp");
  const HostFolder in_var("/var/tmp");
  const HostFolder in_state(state_dir());
  const HostFolder in_root("/root");
  std::string needles;
  for (const HostFolder* folder : {&in_tmp, &in_var, &in_state, &in_root}) {
    if (!needles.empty()) needles += ':';
    needles += folder->write("needle-" + random_word(), "found", 0666);
  }
  Box box(as_guest);
  control::ExecuteOptions options;
  options.env = {"NEEDLES=" + needles};
  expect_all_refused(box.python(attack(kLookForNeedles), options), 60);
}

// /usr is a part of the host's own file system. Whoever may open by handle needs no path to leave
// it.
TEST_P(P01, FileHandlesOpenNothing) {
  const HostFolder folder("/var/tmp");
  const std::string needle = folder.write("needle", "found", 0666);
  struct {
    file_handle head{MAX_HANDLE_SZ, 0, {}};
    std::array<unsigned char, MAX_HANDLE_SZ> room{};
  } handle;
  int mount_id = 0;
  ASSERT_EQ(::name_to_handle_at(AT_FDCWD, needle.c_str(), &handle.head, &mount_id, 0), 0);
  std::ostringstream hex;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&handle);
  for (std::size_t i = 0; i < sizeof(file_handle) + handle.head.handle_bytes; ++i)
    hex << "0123456789abcdef"[bytes[i] >> 4U] << "0123456789abcdef"[bytes[i] & 15U];
  Box box(as_guest);
  control::ExecuteOptions options;
  options.env = {"HANDLE=" + hex.str()};
  const auto found = expect_all_refused(box.python(attack(R"(
import struct
needle = bytes.fromhex(os.environ['HANDLE'])
root = struct.pack('<IiII', 8, 1, 2, 0)  # the root folder of any ext file system
for folder in ('/usr', '/', '/tmp', '/workspace'):
    fd = os.open(folder, os.O_RDONLY)
    for name, handle in (('needle', needle), ('root', root)):
        attempt(f'{name} by {folder}', lambda: call(304, fd, ctypes.create_string_buffer(handle), os.O_RDONLY))
)"),
                                                   options),
                                        8);
  EXPECT_EQ(found.at("needle by /usr"), "EPERM");
}

TEST_P(P01, WritesStayInside) {
  const std::string name = "written-" + random_word();
  const std::vector<std::string> places = {
      "/",        "/etc",  "/usr",       "/usr/bin", "/usr/local/bin", "/usr/lib", "/bin",
      "/lib",     "/root", "/home",      "/var",     "/var/tmp",       "/var/lib", "/opt",
      "/srv",     "/mnt",  "/tmp",       "/run",     "/dev/shm",       "/dev",     "/sys",
      "/var/log", "/proc", "/workspace", "/media",   "/var/cache"};
  std::string list;
  for (const std::string& place : places) list += place + ":";
  const std::string host_true = read_text("/usr/bin/true");
  Box box(as_guest);
  control::ExecuteOptions options;
  options.env = {"PLACES=" + list, "NAME=" + name};
  const auto result = box.python(attack(R"(
for place in filter(None, os.environ['PLACES'].split(':')):
    path = os.path.join(place, os.environ['NAME'])
    attempt(place, lambda: write(path, 'guest', os.O_WRONLY | os.O_CREAT))
    attempt('mkdir ' + place, lambda: os.mkdir(path + '.d'))
    attempt('link ' + place, lambda: os.symlink('/etc/passwd', path + '.l'))
attempt('over a program', lambda: write('/usr/bin/true', 'guest', os.O_WRONLY | os.O_TRUNC))
attempt('away with a program', lambda: os.unlink('/usr/bin/false'))
)"),
                                 options);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto found = outcomes(result.out);
  EXPECT_TRUE(found.at("/tmp").starts_with("WORKED")) << found.at("/tmp");
  EXPECT_EQ(found.at("over a program").starts_with("WORKED"),
            GetParam().root == RootMode::Writable && GetParam().uid == 0)
      << found.at("over a program");
  for (const std::string& place : places) {
    for (const char* kind : {"", ".d", ".l"}) {
      struct stat facts{};
      EXPECT_NE(::lstat((place + "/" + name + kind).c_str(), &facts), 0) << place;
    }
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(state_dir()))
    EXPECT_NE(entry.path().filename(), name) << entry.path();
  EXPECT_EQ(read_text("/usr/bin/true"), host_true);
  EXPECT_TRUE(std::filesystem::exists("/usr/bin/false"));
}

// A plan grants a folder, not what its links name.
TEST(P01Grants, LinksInAGrantedFolderResolveInside) {
  const HostFolder secret("/var/tmp");
  const std::string needle = secret.write("needle", "found", 0666);
  const HostFolder granted;
  std::filesystem::create_symlink(needle, granted.at("file"));
  std::filesystem::create_symlink(secret.path(), granted.at("folder"));
  std::filesystem::create_symlink("/proc/1/root" + needle, granted.at("magic"));
  for (const FolderMode mode :
       {FolderMode::ReadOnly, FolderMode::PrivateCopy, FolderMode::Writable}) {
    Box box(
        [&](control::LocalSpec& local) { show_folder(local, granted.path(), mode, "/granted"); });
    expect_all_refused(box.python(attack(R"(
for name in ('file', 'folder/needle', 'magic', '../needle', 'folder/../needle'):
    attempt(name, lambda: read('/granted/' + name))
)")),
                       5);
  }
}

TEST(P01Grants, OnlyAWritableFolderChangesTheHost) {
  for (const FolderMode mode :
       {FolderMode::ReadOnly, FolderMode::PrivateCopy, FolderMode::Writable}) {
    const HostFolder granted;
    ASSERT_EQ(::chmod(granted.path().c_str(), 0777), 0);
    (void)granted.write("old", "host", 0666);
    ASSERT_EQ(::mkfifo(granted.at("fifo").c_str(), 0666), 0);
    Box box(
        [&](control::LocalSpec& local) { show_folder(local, granted.path(), mode, "/granted"); });
    const auto result = box.python(attack(R"(
os.chdir('/granted')
attempt('write', lambda: write('old', 'guest'))
attempt('reopen', lambda: os.write(os.open('/proc/self/fd/%d' % os.open('old', os.O_RDONLY), os.O_WRONLY), b'guest'))
attempt('truncate', lambda: os.truncate('old', 0))
attempt('chmod', lambda: os.chmod('old', 0))
attempt('utime', lambda: os.utime('old', (1, 1)))
attempt('xattr', lambda: os.setxattr('old', 'user.guest', b'1'))
attempt('new', lambda: write('new', 'guest', os.O_WRONLY | os.O_CREAT))
attempt('rename', lambda: os.rename('old', 'older'))
attempt('link', lambda: os.link('old', '/tmp/linked'))
attempt('unlink', lambda: os.unlink('old'))
attempt('fifo', lambda: os.open('fifo', os.O_RDWR | os.O_NONBLOCK))
)"));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    if (mode == FolderMode::ReadOnly) expect_all_refused(result, 10);
    if (mode == FolderMode::Writable) {
      EXPECT_EQ(read_text(granted.at("new")), "guest");
      continue;
    }
    struct stat facts{};
    ASSERT_EQ(::stat(granted.at("old").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777U, 0666U);
    EXPECT_GT(facts.st_mtim.tv_sec, 1);
    EXPECT_EQ(read_text(granted.at("old")), "host");
    EXPECT_FALSE(std::filesystem::exists(granted.at("new")));
    EXPECT_FALSE(std::filesystem::exists(granted.at("older")));
  }
}

// What the host mounts while a sandbox lives stays outside: below a granted folder and below /usr.
TEST(P01Grants, LaterMountsOfTheHostDoNotAppear) {
  const HostFolder granted;
  const std::vector<std::pair<FolderMode, std::string>> modes = {
      {FolderMode::ReadOnly, "/a"}, {FolderMode::PrivateCopy, "/b"}, {FolderMode::Writable, "/c"}};
  std::filesystem::create_directory(granted.at("place"));
  Box box([&](control::LocalSpec& local) {
    for (const auto& [mode, at] : modes) show_folder(local, granted.path(), mode, at);
  });
  ASSERT_EQ(box.sh("ls /a/place /b/place /c/place /usr/local >/dev/null").exit_code, 0);
  const LateMount below_folder(granted.at("place"));
  const LateMount below_usr("/usr/local");
  EXPECT_EQ(box.sh("cat /a/place/late /b/place/late /c/place/late /usr/local/late 2>/dev/null").out,
            "");
}

// A folder that the host moves away while somebody stands in it must not lead up into the host.
TEST(P01Grants, AFolderMovedAwayIsNoWayOut) {
  const HostFolder granted;
  const HostFolder elsewhere;
  (void)elsewhere.write("needle", "found", 0666);
  std::filesystem::create_directory(granted.at("moved"));
  ASSERT_EQ(::chmod(granted.path().c_str(), 0777), 0);
  ASSERT_EQ(::mkfifo(granted.at("ready").c_str(), 0666), 0);
  ASSERT_EQ(::mkfifo(granted.at("go").c_str(), 0666), 0);
  ASSERT_EQ(::chmod(granted.at("ready").c_str(), 0666) | ::chmod(granted.at("go").c_str(), 0666),
            0);
  Box box([&](control::LocalSpec& local) {
    show_folder(local, granted.path(), FolderMode::Writable, "/granted");
  });
  control::ExecutionResult result;
  control::ExecuteOptions options;
  options.env = {"NEEDLE=" + elsewhere.at("needle").substr(1)};
  // Both ends are open from the beginning, so neither side waits for the other to open its own.
  const UniqueFd ready(::open(granted.at("ready").c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd go(::open(granted.at("go").c_str(), O_RDWR | O_CLOEXEC));
  std::thread guest([&] {
    result = box.python(attack(R"(
os.chdir('/granted/moved')
ready, go = os.open('/granted/ready', os.O_WRONLY), os.open('/granted/go', os.O_RDONLY)
os.write(ready, b'r')
os.read(go, 1)
attempt('needle beside', lambda: read('../needle'))
for climb in range(1, 12):
    attempt(f'shadow {climb}', lambda: read('../' * climb + 'etc/shadow'))
    attempt(f'needle {climb}', lambda: read('../' * climb + os.environ['NEEDLE']))
)"),
                        options);
  });
  pollfd wait{.fd = ready.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wait, 1, 30'000), 1);
  EXPECT_EQ(::rename(granted.at("moved").c_str(), elsewhere.at("moved").c_str()), 0);
  EXPECT_EQ(::write(go.get(), "g", 1), 1);
  guest.join();
  expect_all_refused(result, 20);
}

// The guest is in a chroot. Whoever got out of it, with every capability of the guest's user
// namespace, would find empty folders, and links to where nothing is any more.
TEST(P01, BehindTheRootIsNothing) {
  Box box;
  // Folders without a file, and links that lead nowhere.
  const auto look = [] {
    std::error_code failed;
    std::filesystem::recursive_directory_iterator at("/"), end;
    for (; at != end; at.increment(failed)) {
      if (at->path() == sys::PendingNamespace::kEmptyFolder) {  // the sandbox's own root
        at.disable_recursion_pending();
        continue;
      }
      if (at->is_symlink() && !std::filesystem::exists(at->path(), failed)) continue;
      if (!at->is_symlink() && at->is_directory()) continue;
      static_cast<void>(fprintf(stderr, "behind the root: %s\n", at->path().c_str()));
      return 1;
    }
    return ::mkdir("/x", 0755) == 0 ? 2 : 0;
  };
  for (const int namespaces : {CLONE_NEWNS, CLONE_NEWNS | CLONE_NEWUSER})
    EXPECT_EQ(in_namespaces(box.init_pid(), namespaces, look, Place::Behind), 0) << namespaces;
}

}  // namespace
}  // namespace caisson::test
