// P6: the guest can neither change nor read caisson's own binaries.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <thread>

#include "tests/security/attack.h"

namespace caisson::test {
namespace {

constexpr int kExecs = 100;

std::string exe_of(pid_t pid) { return "/proc/" + std::to_string(pid) + "/exe"; }

TEST(P06, InitIsASealedFileOfNobody) {
  Box box;
  const UniqueFd image(::open(exe_of(box.init_pid()).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(image) << "root of the host reads it";
  const int seals = ::fcntl(image.get(), F_GET_SEALS);
  const int wanted = F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
  ASSERT_GE(seals, 0) << "it is no memory file";
  EXPECT_EQ(seals & wanted, wanted);
  struct stat facts{};
  ASSERT_EQ(::fstat(image.get(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0666U, 0U) << "nobody inside may read or write it";
}

constexpr const char* kOpenInit = R"(
for link in ('/proc/1/exe', '/proc/1/map_files', '/proc/1/mem', '/proc/1/auxv', '/proc/1/maps', '/proc/1/smaps'):
    attempt('readlink ' + link, lambda: os.readlink(link))
    for name, flags in (('read', os.O_RDONLY), ('write', os.O_WRONLY), ('both', os.O_RDWR), ('path', os.O_PATH)):
        if name == 'path' and not link.endswith('exe'): continue
        attempt(f'{name} {link}', lambda: os.read(os.open(link, flags), 1))
attempt('exec', lambda: os.execv('/proc/1/exe', ['x']))
)";

TEST(P06, InitsFileIsClosedToTheGuest) {
  for (const std::uint32_t uid : {1000U, 0U, 65534U}) {
    Box box(as_user(uid));
    expect_all_refused(box.python(attack(kOpenInit)), 15);
  }
}

// A tenant on its way to exec is still a copy of init. Whoever watches for it and holds its file
// must not be able to write it afterwards, nor to read it.
constexpr const char* kWatchForInit = R"(
seen, tries = set(), 0
while not os.path.exists('/tmp/stop'):
    for pid in os.listdir('/proc'):
        if not pid.isdigit() or int(pid) == os.getpid(): continue
        for name, flags in (('write', os.O_WRONLY | os.O_NONBLOCK), ('read', os.O_RDONLY | os.O_NONBLOCK)):
            try:
                fd = os.open(f'/proc/{pid}/exe', flags)
            except OSError:
                continue
            target = os.readlink(f'/proc/self/fd/{fd}')
            if name == 'write': seen.add('wrote ' + target)
            if 'memfd' in target or 'caisson' in target: seen.add(f'{name} {target}')
            os.close(fd)
        tries += 1
for what in seen: say(what, 'WORKED')
say('tries', tries)
)";

TEST(P06, WatchingExecsYieldsNoDescriptorOfInit) {
  Box box;
  const std::string image = read_text(exe_of(box.init_pid()));
  engine::ExecRequest watcher;
  watcher.argv = {"/usr/bin/python3", "-I", "-c", attack(kWatchForInit)};
  watcher.user = {1000, 1000};
  watcher.timeout = milliseconds{60'000};
  Result<engine::ExecResult> watched = std::unexpected(Error{});
  std::thread thread([&] { watched = box.session().execute(watcher); });
  for (int i = 0; i < kExecs; ++i) EXPECT_EQ(box.run({"/bin/true"}).exit_code, 0);
  EXPECT_EQ(box.sh("touch /tmp/stop").exit_code, 0);
  thread.join();
  ASSERT_TRUE(watched) << watched.error().message;
  const auto found = outcomes(watched->out);
  EXPECT_EQ(found.size(), 1U) << watched->out << watched->err;
  EXPECT_EQ(read_text(exe_of(box.init_pid())), image);
}

// CVE-2019-5736: a program of the image that names /proc/self/exe as its interpreter makes whoever
// starts it run itself again, with a file that can then be reopened from inside.
TEST(P06, AnInterpreterThatIsTheStarterGivesNothing) {
  Box box([](control::LocalSpec& local) {
    as_user(0)(local);
    local.spec.request.root = engine::RootMode::Writable;
  });
  const std::string image = read_text(exe_of(box.init_pid()));
  const std::string program = read_text(caisson_program());
  ASSERT_EQ(box.python(R"(
import os
os.unlink('/usr/bin/dash')
with open('/usr/bin/dash', 'w') as file: file.write('#!/proc/self/exe\n')
os.chmod('/usr/bin/dash', 0o755)
with open('/usr/local/bin/trap', 'w') as file: file.write('#!/proc/self/exe --version\n')
os.chmod('/usr/local/bin/trap', 0o755)
)")
                .exit_code,
            0);
  for (const char* trap : {"/bin/sh", "/usr/local/bin/trap"}) {
    for (int i = 0; i < 10; ++i) {
      control::ExecuteOptions options;
      options.timeout = milliseconds{5000};
      const auto result = manager().execute(box.id(), {trap, "-c", "exit 0"}, options);
      if (result) EXPECT_NE(result->exit_code, 0) << result->out;
      if (result) EXPECT_EQ(result->out, "") << "nothing of ours runs for a tenant";
    }
  }
  EXPECT_TRUE(box.session().ping());
  EXPECT_EQ(read_text(exe_of(box.init_pid())), image);
  EXPECT_EQ(read_text(caisson_program()), program);
  EXPECT_EQ(box.python("print(1)").out, "1\n");
}

// Nothing of ours is in the guest's tree: not the command, not init, not the state directory.
TEST(P06, NothingOfOursIsInTheTree) {
  Box box;
  EXPECT_EQ(box.python(R"(
import os
for top, folders, files in os.walk('/'):
    if top == '/': folders[:] = [f for f in folders if f not in ('proc', 'usr')]
    for name in files + folders:
        if 'caisson' in name: print(top, name)
)")
                .out,
            "");
}

}  // namespace
}  // namespace caisson::test
