// `caisson run` with whatever can be wrong: one clear line, the right status, and nothing left
// behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/integration/program.h"
#include "tests/security/host_view.h"

namespace caisson::test {
namespace {

class BadInput : public testing::Test {
 protected:
  ~BadInput() override { EXPECT_TRUE(nothing_on_record()); }

  // Refused with `status`, in one line that begins with the command's name and holds each of
  // `words`.
  static void refused(const Finished& end, int status, const std::vector<std::string>& words) {
    EXPECT_EQ(end.status, status) << end.err;
    EXPECT_EQ(end.out, "");
    EXPECT_EQ(std::ranges::count(end.err, '\n'), 1) << end.err;
    EXPECT_TRUE(end.err.starts_with("caisson run: ")) << end.err;
    for (const std::string& word : words)
      EXPECT_NE(end.err.find(word), std::string::npos) << "no '" << word << "' in: " << end.err;
  }
  static Finished with(std::vector<std::string> options) {
    options.insert(options.begin(), "run");
    for (const char* word : {"--", "/bin/echo", "ran"}) options.emplace_back(word);
    return caisson(options);
  }
  Finished with_config(const std::string& text) {
    return with({"--config", folder_.write("cap.yaml", text)});
  }

  Folder folder_;
};

TEST_F(BadInput, CapabilityFiles) {
  refused(with_config("a: [1\n"), 2, {"capability validation error", "line"});
  refused(with_config("surprise: 1\n"), 2, {"surprise", "line 1"});
  refused(with_config("sandbox_tier: docker\n"), 2, {"sandbox_tier", "docker", "seccomp"});
  refused(with_config("sandbox_tier: firecracker\n"), 125, {"micro"});
  refused(with_config("resource_limits: {max_memory_mb: -1}\n"), 2, {"max_memory_mb", "-1"});
  refused(with_config("resource_limits: {max_cpu_seconds: 0}\n"), 2, {"max_cpu_seconds", "0"});
  refused(with_config("resource_limits: {max_cpu_seconds: .inf}\n"), 2, {"max_cpu_seconds"});
  refused(with_config("permissions: [root]\n"), 2, {"permissions", "root"});
  refused(with_config("filesystem_config: {mode: rw}\n"), 2, {"mode", "rw", "read_write"});
  refused(with_config("filesystem_config: {mode: read_write, writable_paths: [/proc/x]}\n"), 2,
          {"writable", "/proc/x"});
  refused(with_config("filesystem_config: {mode: read_write, writable_paths: [/etc]}\n"), 125,
          {"writable_paths", "/etc"});
  refused(with_config(std::string("a\0b: 1\n", 7)), 2, {"capability validation error"});
  refused(with_config(std::string(100'000, '[')), 2, {"capability validation error"});
}

TEST_F(BadInput, UnreadableCapabilityFiles) {
  refused(with({"--config", folder_.path()}), 2, {folder_.path(), "not a regular file"});
  refused(with({"--config", folder_.path() + "/none"}), 2, {"none", "No such file"});
  refused(with({"--config", "/dev/null"}), 2, {"/dev/null", "not a regular file"});
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  refused(with({"--config", fifo}), 2, {"fifo", "not a regular file"});
}

TEST_F(BadInput, Limits) {
  refused(with({"--memory", "-1"}), 2, {"--memory", "-1"});
  refused(with({"--memory", "lots"}), 2, {"--memory", "lots"});
  refused(with({"--timeout", "-3"}), 2, {"--timeout", "-3"});
  refused(with({"--timeout", "soon"}), 2, {"--timeout", "soon"});
  refused(with({"--cpus", "0"}), 2, {"--cpus", "0"});
  refused(with({"--cpus", "nan"}), 2, {"--cpus", "nan"});
  refused(with({"--cpu-seconds", "-1"}), 2, {"--cpu-seconds", "-1"});
  refused(with({"--pids", "0"}), 2, {"--pids", "0"});
  refused(with({"--pids", "-1"}), 2, {"--pids", "-1"});
  refused(with({"--pids", "99999999999999999999"}), 2, {"--pids"});
  refused(with({"--disk", "1"}), 2, {"disk", "1"});
  refused(with({"--disk", "unlimited"}), 2, {"--disk"});
  refused(with({"--user", "65535"}), 2, {"--user", "65535"});
  refused(with({"--user", "root"}), 2, {"--user", "root"});
  refused(with({"--tier", "docker"}), 2, {"--tier", "docker"});
  refused(with({"--workdir", "relative"}), 2, {"--workdir", "relative"});
  refused(with({"--workdir", "/a/../b"}), 2, {"--workdir", ".."});
  refused(with({"--env", "1BAD=x"}), 2, {"--env", "1BAD"});
  refused(with({"--env", "NOT_SET_HERE"}), 2, {"--env", "NOT_SET_HERE"});
  refused(with({"--writable", "/no/such/folder"}), 125, {"--writable", "/no/such/folder"});
  refused(with({"--summary", "xml"}), 2, {"--summary", "xml"});
  refused(with({"--allow", "127.0.0.1:443"}), 2, {"--allow", "127.0.0.1"});
}

TEST_F(BadInput, Commands) {
  refused(caisson({"run"}), 2, {"no command"});
  refused(caisson({"run", "--"}), 2, {"no command"});
  refused(caisson({"run", "--", ""}), 2, {"empty"});
  for (const char* word : {"ls;id", "a|b", "a&b", "$HOME", "`id`", "a\nb"})
    refused(caisson({"run", "--", word}), 2, {"command"});
  refused(caisson({"run", "--", "/no/such/program"}), 127, {"/no/such/program", "No such file"});
  refused(caisson({"run", "--", "no-such-program"}), 127, {"no-such-program"});
  refused(caisson({"run", "--", "/etc/passwd"}), 126, {"/etc/passwd", "Permission denied"});
  refused(caisson({"run", "--", "/usr"}), 126, {"/usr"});
  refused(caisson({"run", "--workdir", "/no/such", "--", "/bin/true"}), 125, {"/no/such"});
}

// Only the first word is a program's name: arguments may hold anything.
TEST_F(BadInput, ArgumentsAreNeverParsed) {
  const Finished end =
      caisson({"run", "-q", "--", "/bin/echo", "; rm -rf $HOME `id` | &", "--memory"});
  EXPECT_EQ(end.out, "; rm -rf $HOME `id` | & --memory\n");
}

TEST_F(BadInput, AClosedOutputEndsTheRun) {
  ProgramOptions options;
  options.close_output_at_once = true;
  const Finished end = run_sh({}, "while echo more; do :; done", options);
  EXPECT_EQ(end.status, 141) << end.err;
  EXPECT_NE(end.err.find("nobody reads standard output any more"), std::string::npos) << end.err;
}

TEST_F(BadInput, ClosedStandardDescriptorsAreNobodysFile) {
  ProgramOptions options;
  options.standard_input = Stdio::Closed;
  EXPECT_EQ(run_sh({"-q"}, "cat; echo done", options).out, "done\n");
  options.standard_output = Stdio::Closed;
  const Finished silent = run_sh({"-q"}, "cat; echo done; echo said >&2", options);
  EXPECT_EQ(silent.err, "said\n");
  EXPECT_EQ(silent.status, 0);
}

TEST_F(BadInput, InheritedDescriptorsDoNotReachTheGuest) {
  std::vector<UniqueFd> held;
  for (int i = 0; i < 500; ++i)  // deliberately without O_CLOEXEC: a careless parent
    held.emplace_back(::open("/etc/passwd", O_RDONLY));  // NOLINT(android-cloexec-open)
  ASSERT_GT(held.back().get(), 500);
  const Finished end =
      caisson({"run", "-q", "--", "/usr/bin/python3", "-Ic",
               "import os; print(sorted(os.listdir('/proc/self/fd'), key=int)[:-1])"});
  EXPECT_EQ(end.out, "['0', '1', '2']\n") << end.err;
}

TEST_F(BadInput, ADeletedCurrentFolder) {
  const Folder gone;
  // The shell of the caller sits in a folder that somebody removed.
  const std::string script = "cd " + gone.path() + " && rmdir " + gone.path() + " && exec " +
                             caisson_program() + " run -q --state-dir " + state_dir() +
                             " -- /bin/pwd";
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  std::string words[] = {"sh", "-c", script};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  char* envp[] = {nullptr};
  pid_t pid = -1;
  ASSERT_EQ(::posix_spawn(&pid, "/bin/sh", &actions, nullptr, argv, envp), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Finished end;
  std::array<char, 4096> bytes;
  for (ssize_t got = 0; (got = ::read(ends[0], bytes.data(), bytes.size())) > 0;)
    end.err.append(bytes.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  end.status = WEXITSTATUS(status);
  refused(end, 125, {"current folder"});
}

TEST_F(BadInput, AStateFolderThatCannotBe) {
  const std::string file = folder_.write("file", "");
  refused(with({"--state-dir", file}), 125, {"state directory", file});
  refused(with({"--state-dir", file + "/below"}), 125, {"state directory", file});
  refused(with({"--state-dir", "/proc/caisson"}), 125, {"state directory", "/proc/caisson"});
}

// SIGKILL runs no destructor. The sandbox dies all the same, with its groups.
TEST_F(BadInput, AKilledRunLeavesNothing) {
  const engine::HostFeatures host = engine::probe_host();
  for (int run = 0; run < 5; ++run) {
    Program program({"run", "-q", "--", "/bin/sh", "-c",
                     "trap '' HUP TERM INT; setsid tail -f /dev/null & echo ready; wait"});
    ASSERT_TRUE(program.wait_for_output("ready\n"));
    // Which sandbox it is, the record of this state directory says.
    std::ifstream slots(state_dir() + "/launcher/slots", std::ios::binary);
    std::string id;
    for (char byte = 0; slots.get(byte);) {
      if (byte != '\0') id.push_back(byte);
    }
    ASSERT_EQ(id.size(), 26U) << id;
    const std::set<pid_t> alive = members(host, id);
    ASSERT_GE(alive.size(), 3U);
    const std::set<std::string> namespaces = own_namespaces(*alive.begin());
    program.kill();
    EXPECT_TRUE(eventually([&] { return members(host, id).empty(); }));
    EXPECT_TRUE(eventually([&] { return groups_of(host, id).empty(); }))
        << groups_of(host, id).front();
    EXPECT_TRUE(eventually([&] {
      const std::set<std::string> inhabited = inhabited_namespaces();
      return std::ranges::none_of(namespaces,
                                  [&](const auto& one) { return inhabited.contains(one); });
    }));
    // The next run takes the record's place, so that none is lost for good.
    EXPECT_EQ(caisson({"run", "-q", "--", "/bin/echo", "next"}).out, "next\n");
    EXPECT_TRUE(nothing_on_record());
  }
}

}  // namespace
}  // namespace caisson::test
