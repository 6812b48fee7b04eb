// P5: the guest inherits exactly three descriptors and a working directory inside its root.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/security/attack.h"
#include "tests/security/host_program.h"

namespace caisson::test {
namespace {

constexpr int kInheritedMax = 500;

// One line per descriptor that is open before Python opens one itself: its number and its target.
constexpr const char* kList = R"(
import os
listed = [int(n) for n in os.listdir('/proc/self/fd')]
for fd in sorted(listed):
    try:
        print(fd, os.readlink(f'/proc/self/fd/{fd}').split(':')[0])
    except OSError:
        pass
print(os.getcwd())
)";

// Files and folders that are open without close-on-exec: what a careless program hands on.
class Litter {
 public:
  Litter() {
    rlimit files{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
    const char* const places[] = {"/", "/etc/shadow", "/root", "/proc", "/dev/null"};
    for (int i = 0; i < kInheritedMax; ++i) {
      // NOLINTNEXTLINE(android-cloexec-open): the leak is the point
      held_.emplace_back(::open(places[i % 5], O_RDONLY));
      EXPECT_TRUE(held_.back()) << places[i % 5];
    }
  }

 private:
  std::vector<UniqueFd> held_;
};

TEST(P05, ExactlyThree) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box(as_user(uid));
    EXPECT_EQ(box.python(kList).out, "0 /dev/null\n1 pipe\n2 pipe\n/workspace\n");
    control::ExecuteOptions options;
    options.input = "x";
    EXPECT_EQ(box.python(kList, options).out, "0 pipe\n1 pipe\n2 pipe\n/workspace\n");
  }
}

TEST(P05, ALitteredLauncherHandsNothingOn) {
  const Litter litter;
  control::SandboxManager::Options options;
  options.program = caisson_program();
  options.state_dir = state_dir();
  auto littered = control::SandboxManager::open(std::move(options));
  ASSERT_TRUE(littered) << littered.error().message;
  control::LocalSpec local;
  local.spec = engine::default_spec();
  local.workdir = "/";
  const auto id = (*littered)->create_sandbox(std::move(local));
  ASSERT_TRUE(id) << id.error().message;
  const auto result = (*littered)->execute(*id, {"/usr/bin/python3", "-I", "-c", kList});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out, "0 /dev/null\n1 pipe\n2 pipe\n/\n") << result->err;
  // init, too, holds its own few and no folder of the host.
  const std::string fds = "/proc/" + std::to_string((*littered)->init_pid(*id)) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(fds)) {
    const std::string target = std::filesystem::read_symlink(entry.path()).string();
    for (const char* host : {"/", "/etc/shadow", "/root", "/proc"}) EXPECT_NE(target, host);
  }
}

TEST(P05, ALitteredCommandHandsNothingOn) {
  const Litter litter;
  const HostRun run =
      run_caisson({"run", "--quiet", "--no-folder", "--", "python3", "-I", "-c", kList});
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_EQ(run.out, "0 pipe\n1 pipe\n2 pipe\n/workspace\n") << run.err;
}

// Without standard descriptors the first files that a program opens get their numbers. None of
// these may reach the guest.
TEST(P05, ACommandStartedWithoutStandardDescriptorsHandsNothingOn) {
  const HostFolder folder;
  const std::string redirected =
      "import sys; sys.stdout = open('" + folder.at("seen") + "', 'w')\n" +
      "import os\nfor fd in range(3):\n    print(fd, os.readlink(f'/proc/self/fd/{fd}')"
      ".split(':')[0])\nprint(sorted(set(map(int, os.listdir('/proc/self/fd'))) - {0, 1, 2, "
      "sys.stdout.fileno()})[1:])\n";
  const HostRun run = run_caisson(
      {"run", "--quiet", "--writable", folder.path(), "--", "python3", "-I", "-c", redirected},
      Standard::Closed);
  const std::string seen = read_text(folder.at("seen"));
  if (!seen.empty()) {
    std::istringstream lines(seen);
    for (std::string line; std::getline(lines, line);) {
      if (line == "[]") continue;
      const std::string target = line.substr(2);
      EXPECT_TRUE(target == "pipe" || target == "/dev/null") << seen;
    }
  } else {
    EXPECT_NE(run.status, 0) << "neither ran nor refused";
  }
}

TEST(P05, WorkingDirectoriesOutsideAreRefused) {
  Box box;
  for (const char* workdir :
       {"/proc/self/fd/3", "/proc/self/fd/5", "/proc/self/fd/7", "/proc/1/cwd", "/proc/1/root",
        "/proc/1/fd/5", "/nowhere", "/dev/null"}) {
    control::ExecuteOptions options;
    options.workdir = workdir;
    const auto result = manager().execute(box.id(), {"/bin/pwd"}, options);
    EXPECT_FALSE(result) << workdir << ": " << result->out << result->err;
  }
  for (const char* workdir : {"/proc/self/cwd", "/proc/self/root", "/usr/../../../.."}) {
    control::ExecuteOptions options;
    options.workdir = workdir;
    const auto result = manager().execute(box.id(), {"/bin/ls", "-d", "/", "boot"}, options);
    if (result) EXPECT_NE(result->exit_code, 0) << workdir << ": a folder with the host's /boot";
  }
}

// A descriptor that crosses by SCM_RIGHTS would need a socket shared with the host: the three
// standard ones are pipes, and nothing else is a socket.
TEST(P05, NoDescriptorIsASocket) {
  Box box;
  EXPECT_EQ(box.python(R"(
import os, stat
print([fd for fd in range(0, 4096) if os.path.exists(f'/proc/self/fd/{fd}') and stat.S_ISSOCK(os.fstat(fd).st_mode)])
)")
                .out,
            "[]\n");
}

}  // namespace
}  // namespace caisson::test
