// `caisson run` by an ordinary user: the walls are the same, ids and limits are weaker, and each
// difference is said or refused.
#include <gtest/gtest.h>

#include <regex>

#include "engine/host/features.h"
#include "tests/integration/other_user.h"

namespace caisson::test {
namespace {

constexpr uid_t kNobody = 65534;
constexpr uid_t kSomebody = 64'321;
constexpr const char* kPython = "/usr/bin/python3";

class Rootless : public testing::Test {
 protected:
  Rootless() {
    std::filesystem::permissions(place_.path(), std::filesystem::perms(0755));
    program_ = place_.path() + "/caisson";
    std::filesystem::copy_file(caisson_program(), program_);
    ::chmod(program_.c_str(), 0755);
    for (const char* name : {"state", "folder", "real"}) own_folder(name);
  }
  ~Rootless() override {
    // Helpers may still be taking away what a run used; none of them stays.
    EXPECT_TRUE(all_end(processes_of(program_)));
    for (const char* name : {"state/sandboxes", "state/trash"}) {
      const std::string path = place_.path() + "/" + name;
      if (std::filesystem::exists(path)) EXPECT_TRUE(std::filesystem::is_empty(path)) << path;
    }
  }

  void SetUp() override { ASSERT_EQ(::geteuid(), 0U) << "run it as root: it becomes others"; }
  void own_folder(const std::string& name) {
    const std::string path = place_.path() + "/" + name;
    std::filesystem::create_directories(path);
    ASSERT_EQ(::chown(path.c_str(), person_.uid, person_.uid), 0);
  }
  void become_person(uid_t uid) {
    person_.uid = uid;
    for (const char* name : {"state", "folder", "real"}) own_folder(name);
  }
  std::string own_file(const std::string& name, const std::string& content) {
    const std::string path = place_.write(name, content, 0600);
    EXPECT_EQ(::chown(path.c_str(), person_.uid, person_.uid), 0);
    return path;
  }

  std::unique_ptr<UserProgram> start(std::vector<std::string> words) {
    words.insert(words.begin(), program_);
    return std::make_unique<UserProgram>(
        person_, std::move(words), place_.path() + "/folder",
        std::vector<std::string>{"PATH=/usr/bin:/bin", "HOME=/nonexistent",
                                 "CAISSON_STATE_DIR=" + place_.path() + "/state"});
  }
  Finished run(std::vector<std::string> flags, const std::vector<std::string>& command) {
    flags.insert(flags.begin(), "run");
    flags.emplace_back("--");
    flags.insert(flags.end(), command.begin(), command.end());
    return start(std::move(flags))->finish();
  }
  Finished sh(std::vector<std::string> flags, const std::string& script) {
    return run(std::move(flags), {"/bin/sh", "-c", script});
  }
  Finished python(const std::vector<std::string>& flags, const std::string& script,
                  const std::string& word = "") {
    return run(flags, {kPython, "-I", "-c", script, word});
  }

  Folder place_;  // world-readable, with what the person owns
  std::string program_;
  Person person_;
};

TEST_F(Rootless, ItRunsAndSaysWhatIsWeaker) {
  const Finished ran = sh({}, "id -u; exit 7");
  EXPECT_EQ(ran.status, 7) << ran.err;
  EXPECT_EQ(ran.out, "1000\n");
  for (const char* note : {"note: no control group can be made here", "note: memory is not limited",
                           "note: rootless without sub-ids"}) {
    EXPECT_NE(ran.line(std::string("[sandbox] ") + note), "") << ran.err;
  }
  EXPECT_TRUE(std::regex_search(
      ran.err, std::regex(R"(\[sandbox\] finished  exit=7  duration=\d+ms  cpu=[\d.]+s  mem=)")))
      << ran.err;
  EXPECT_EQ(sh({"-q"}, "exit 3").err, "");
}

// No silent downgrade: each declared limit that needs a group is refused, and the remedy is named.
TEST_F(Rootless, ADeclaredLimitThatCannotHoldIsRefused) {
  const std::string config = place_.write("cap.yaml", "resource_limits: {max_memory_mb: 64}\n");
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--memory", "64m"}, "memory: cannot be enforced here"},
      {{"--cpus", "0.5"}, "cpus: cannot be enforced here"},
      {{"--cpu-seconds", "1"}, "cpu_seconds: cannot be enforced here"},
      {{"--config", config}, "memory: cannot be enforced here"},
  };
  for (const auto& [flags, reason] : cases) {
    const Finished ran = sh(flags, "echo it ran");
    EXPECT_EQ(ran.status, 125) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find(reason), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("Run as root, or in a delegated group"), std::string::npos) << ran.err;
  }
}

TEST_F(Rootless, TheFolderIsAPrivateCopyAndAGrantIsReal) {
  own_file("folder/kept", "before");
  const std::string real = place_.path() + "/real";
  const Finished ran = sh({"--writable", real},
                          "echo changed > kept && echo new > new && cat kept new && rm kept && "
                          "echo real > " +
                              real + "/file");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "changed\nnew\n");
  EXPECT_EQ(place_.read("folder/kept"), "before");
  EXPECT_FALSE(place_.has("folder/new"));
  EXPECT_EQ(place_.read("real/file"), "real\n");
  struct stat facts{};
  ASSERT_EQ(::stat((real + "/file").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, person_.uid);
}

// The guest has the caller's own id on the host: nothing but the walls keeps it from his files.
TEST_F(Rootless, FilesOfTheSameUserStayOutOfReach) {
  own_file("secret", "canary");
  const Finished ran = python({}, R"(
import os, sys
def tried(path):
    try:
        print('READ', path, open(path).read())
    except OSError:
        pass
for begin in ('', '/proc/self/root', '/proc/1/root', '/proc/1/cwd/../../..', '../' * 20,
              '/proc/self/cwd/' + '../' * 20):
    tried(begin + sys.argv[1])
for fd in range(3, 1024):
    try:
        os.fstat(fd)
        print('OPEN', fd)
    except OSError:
        pass
print('done')
)",
                              place_.path() + "/secret");
  EXPECT_EQ(ran.out, "done\n") << ran.err;
}

// The same for his processes: kill(-1) by his own id reaches nobody outside.
TEST_F(Rootless, ProcessesOfTheSameUserStayOutOfReach) {
  Person outside = person_;
  UserProgram victim(outside, {"/bin/sh", "-c", "echo alive; exec tail -f /dev/null"}, "/", {});
  ASSERT_TRUE(victim.wait_for_output("alive"));
  const Finished ran = python({}, R"(
import os, sys
pids = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())
print(pids == [1, os.getpid()])
try:
    os.kill(-1, 9)
except OSError:
    pass
for pid in list(range(2, 400)) + [int(sys.argv[1])]:
    if pid != os.getpid():
        try:
            os.kill(pid, 9)
            print('REACHED', pid)
        except OSError:
            pass
print('done')
)",
                              std::to_string(victim.pid()));
  EXPECT_EQ(ran.out, "True\ndone\n") << ran.err;
  int status = 0;
  EXPECT_EQ(::waitpid(victim.pid(), &status, WNOHANG), 0);
}

// init shares the tenant's id here: it is process 1 and not dumpable, and that must be enough.
TEST_F(Rootless, InitCannotBeEndedStoppedOrRead) {
  const Finished ran = python({}, R"(
import os, signal, ctypes
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
for name in ('environ', 'mem', 'maps', 'fd/0', 'exe', 'root', 'cwd'):
    try:
        os.close(os.open('/proc/1/' + name, os.O_RDONLY))
        print('OPENED', name)
    except OSError:
        pass
try:
    print('LISTED', os.listdir('/proc/1/fd'))
except OSError:
    pass
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(16, 1, 0, 0))
print('state', open('/proc/1/stat').read().rsplit(')', 1)[1].split()[0] in 'SRD')
)");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "-1\nstate True\n");
}

TEST_F(Rootless, ThereIsNoNetworkAndNoPrivilege) {
  const Finished ran = python({"--user", "0"}, R"(
import os, socket
for family, address in ((socket.AF_INET, '192.0.2.1'), (socket.AF_INET6, '2001:db8::1')):
    s = socket.socket(family); s.settimeout(5)
    try:
        s.connect((address, 80)); print('CONNECTED')
    except OSError as error:
        print(error.errno)
print([line.split(':')[0].strip() for line in open('/proc/self/net/dev').readlines()[2:]])
status = dict(line.split(':\t') for line in open('/proc/self/status').read().splitlines())
print(os.getuid(), int(status['CapPrm'], 16), int(status['CapEff'], 16), status['NoNewPrivs'])
for attempt in (lambda: os.setuid(5), lambda: os.chown('/tmp', 5, 5), lambda: os.chroot('/tmp')):
    try:
        attempt(); print('ALLOWED')
    except OSError:
        pass
)");
  EXPECT_EQ(ran.out, "101\n101\n['lo']\n0 0 0 1\n") << ran.err;
}

// Daemons, blocked signals, stopped processes: the end of pid 1 is the end of all.
constexpr const char* kHydra = R"(
import os, signal
def stay(stopped):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
            os.write(1, b'r')
            if stopped:
                os.kill(os.getpid(), signal.SIGSTOP)
            while True:
                signal.pause()
        os._exit(0)
    os.wait()
for stopped in (False, True, False):
    stay(stopped)
while True:
    signal.pause()
)";

TEST_F(Rootless, TheTimeoutEndsEveryProcess) {
  const std::string word = SandboxId::random().value().str();
  const Finished ran = python({"--timeout", "5"}, kHydra, word);
  EXPECT_EQ(ran.status, 124) << ran.err;
  EXPECT_EQ(ran.out, "rrr");
  EXPECT_NE(ran.err.find("time limit exceeded: limit is 5.0 s"), std::string::npos) << ran.err;
  EXPECT_TRUE(all_end(processes_with(word)));  // its guardian, too, which carries its words
}

TEST_F(Rootless, KillingTheCommandEndsEveryProcess) {
  const std::string word = SandboxId::random().value().str();
  const auto program = start({"run", "--", kPython, "-I", "-c", kHydra, word});
  ASSERT_TRUE(program->wait_for_output("rrr"));
  const auto processes = processes_with(word);
  EXPECT_GE(processes.size(), 5U);  // the command, its tree, and caisson itself
  program->kill();
  EXPECT_EQ(program->finish().status, 128 + SIGKILL);
  EXPECT_TRUE(all_end(processes));
  EXPECT_TRUE(all_end(processes_with(word)));
}

class RootlessSubIds : public Rootless {
 protected:
  static constexpr std::uint32_t kFirst = 500'000;

  void SetUp() override {
    Rootless::SetUp();
    if (::access("/usr/bin/newuidmap", X_OK) != 0 || ::access("/usr/bin/newgidmap", X_OK) != 0)
      GTEST_SKIP() << "newuidmap and newgidmap are not here (package uidmap)";
    become_person(kSomebody);
    person_.etc = place_.path() + "/etc";
    std::filesystem::create_directories(person_.etc);
    const std::string id = std::to_string(kSomebody);
    place_.write("etc/passwd",
                 "root:x:0:0::/root:/bin/sh\nsomebody:x:" + id + ":" + id + "::/:/bin/sh\n");
    place_.write("etc/group", "root:x:0:\nsomebody:x:" + id + ":\n");
    const std::string range = "somebody:" + std::to_string(kFirst) + ":65536\n";
    place_.write("etc/subuid", range);
    place_.write("etc/subgid", range);
  }
};

TEST_F(RootlessSubIds, InitHasAnIdThatTheGuestDoesNot) {
  const Finished ran = python({}, R"(
import os
print(os.getuid(), os.getgid(), os.stat('/proc/1').st_uid)
for number in (0, 9, 19):
    try:
        os.kill(1, number); print('SENT')
    except PermissionError:
        print('refused')
print(open('/proc/self/uid_map').read().split()[2::3])
)");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "1000 1000 65535\nrefused\nrefused\nrefused\n['1000', '1', '64535']\n")
      << ran.err;
  EXPECT_NE(ran.line("[sandbox] note: rootless: the guest runs under your own id"), "") << ran.err;
}

TEST_F(RootlessSubIds, WhateverTheUserInsideHisFilesAreHis) {
  own_file("folder/mine", "mine");
  for (const char* user : {"0", "1", "1000", "65534"}) {
    const std::string real = place_.path() + "/real";
    const Finished ran = sh({"-q", "--user", user, "--writable", real},
                            "stat -c %u mine; cat mine; echo; echo x > " + real + "/by-" + user);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, std::string(user) + "\nmine\n") << ran.err;
    struct stat facts{};
    ASSERT_EQ(::stat((real + "/by-" + user).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_uid, kSomebody);
    EXPECT_EQ(facts.st_gid, kSomebody);
  }
}

// The tools of the host have the last word: a range that is another's is never mapped.
TEST_F(RootlessSubIds, ARangeThatTheToolsRefuseIsAnErrorAndNotASingleId) {
  place_.write("etc/passwd",
               "root:x:0:0::/root:/bin/sh\nsomebody:x:" + std::to_string(kSomebody) +
                   ":0::/:/bin/sh\n");  // the group of the process is not his
  const Finished ran = sh({}, "echo it ran");
  EXPECT_EQ(ran.status, 125) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find("/etc/subuid"), std::string::npos) << ran.err;
}

class RootlessDelegated : public Rootless {
 protected:
  void SetUp() override {
    Rootless::SetUp();
    const std::string root = engine::probe_host().cgroup_v2_root;
    ASSERT_FALSE(root.empty());
    group_ = std::make_unique<DelegatedGroup>(root, kNobody);
    person_.group = group_->path();
  }
  void expect_only_us_was_there() {
    EXPECT_TRUE(group_->wait_empty());
    for (const std::string& child : group_->children())
      EXPECT_TRUE(child.ends_with("/caisson-launcher")) << child;
  }
  std::unique_ptr<DelegatedGroup> group_;
};

TEST_F(RootlessDelegated, CpuTimeOfTheWholeTreeIsLimited) {
  const Finished ran =
      python({"--cpu-seconds", "0.5"}, "import os\nos.fork()\nos.fork()\nwhile True: pass");
  EXPECT_EQ(ran.status, 128 + SIGKILL) << ran.err;
  EXPECT_NE(ran.err.find("CPU limit exceeded: limit is 0.5 s, used "), std::string::npos)
      << ran.err;
  EXPECT_EQ(ran.err.find("no control group"), std::string::npos) << ran.err;
  expect_only_us_was_there();
}

TEST_F(RootlessDelegated, TheTimeoutEmptiesTheGroup) {
  const std::string word = SandboxId::random().value().str();
  const Finished ran = python({"--timeout", "5"}, kHydra, word);
  EXPECT_EQ(ran.status, 124) << ran.err;
  EXPECT_EQ(ran.out, "rrr");
  EXPECT_TRUE(all_end(processes_with(word)));  // its guardian, too, which carries its words
  expect_only_us_was_there();
}

TEST_F(RootlessDelegated, KillingTheCommandLeavesNoGroup) {
  const std::string word = SandboxId::random().value().str();
  const auto program = start({"run", "--", kPython, "-I", "-c", kHydra, word});
  ASSERT_TRUE(program->wait_for_output("rrr"));
  program->kill();
  EXPECT_EQ(program->finish().status, 128 + SIGKILL);
  EXPECT_TRUE(all_end(processes_of(program_)));
  expect_only_us_was_there();
}

}  // namespace
}  // namespace caisson::test
