// `caisson run`: bytes, statuses and signals pass as if there were no sandbox; limits and folders
// hold.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <random>
#include <regex>

#include "tests/integration/program.h"

namespace caisson::test {
namespace {

class Run : public testing::Test {
 protected:
  ~Run() override { EXPECT_TRUE(nothing_on_record()); }

  // In a folder of the host that is shown inside.
  Finished sh(const std::vector<std::string>& arguments, const std::string& script,
              std::string input = "") {
    ProgramOptions options;
    options.folder = folder_.path();
    options.input = std::move(input);
    options.env = env_;
    return run_sh(arguments, script, std::move(options));
  }
  std::vector<std::string> config(const std::string& text) {
    return {"--config", config_.write("cap.yaml", text)};
  }

  Folder folder_;
  Folder config_;  // beside it: what the guest may do is no file of its own
  std::vector<std::string> env_;
};

TEST_F(Run, ExitStatusIsTheCommandsOwn) {
  EXPECT_EQ(sh({}, "exit 0").status, 0);
  EXPECT_EQ(sh({}, "exit 3").status, 3);
  EXPECT_EQ(sh({}, "exit 255").status, 255);
  EXPECT_EQ(sh({}, "kill -TERM $$").status, 128 + SIGTERM);
  EXPECT_EQ(sh({}, "kill -SEGV $$").status, 128 + SIGSEGV);
  EXPECT_EQ(sh({}, "kill -KILL $$").status, 128 + SIGKILL);
}

TEST_F(Run, TenMegabytesOfAnythingPassBothWays) {
  std::mt19937_64 random(7);
  std::string bytes(10'000'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const Finished through = sh({"-q"}, "cat", bytes);
  EXPECT_EQ(through.status, 0) << through.err;
  EXPECT_TRUE(through.out == bytes) << through.out.size();
  EXPECT_EQ(through.err, "");
  const Finished by_error = sh({"-q"}, "cat >&2", bytes);
  EXPECT_TRUE(by_error.err == bytes) << by_error.err.size();
  EXPECT_EQ(by_error.out, "");
}

TEST_F(Run, OutputsStayApart) {
  const Finished both = sh({"-q"}, "for i in 1 2 3; do echo out$i; echo err$i >&2; done");
  EXPECT_EQ(both.out, "out1\nout2\nout3\n");
  EXPECT_EQ(both.err, "err1\nerr2\nerr3\n");
}

TEST_F(Run, OutputComesWhileTheCommandRuns) {
  ProgramOptions options;
  options.standard_input = Stdio::Pipe;
  Program program({"run", "-q", "--", "/bin/sh", "-c", "echo first; exec tail -f /dev/null"},
                  options);
  EXPECT_TRUE(program.wait_for_output("first\n"));
  program.signal(SIGTERM);
  EXPECT_EQ(program.finish().status, 128 + SIGTERM);
}

TEST_F(Run, SignalsArePassedOn) {
  for (const auto& [number, name] : std::map<int, std::string>{
           {SIGINT, "INT"}, {SIGTERM, "TERM"}, {SIGHUP, "HUP"}, {SIGQUIT, "QUIT"}}) {
    Program program({"run", "-q", "--", "/usr/bin/python3", "-Ic",
                     "import signal, sys, os\n"
                     "def caught(number, frame):\n"
                     "    os.write(1, b'caught %d\\n' % number); os._exit(42)\n"
                     "for n in (1, 2, 3, 15): signal.signal(n, caught)\n"
                     "print('ready', flush=True)\n"
                     "while True: signal.pause()"});
    ASSERT_TRUE(program.wait_for_output("ready\n")) << name;
    program.signal(number);
    const Finished end = program.finish();
    EXPECT_EQ(end.status, 42) << name;
    EXPECT_EQ(end.out, "ready\ncaught " + std::to_string(number) + "\n");
  }
}

TEST_F(Run, TheSummaryIsOneLineOfTheContract) {
  const Finished end = sh({}, "exit 5");
  const std::regex line(
      R"(\[sandbox\] finished  exit=5  duration=\d+ms  cpu=\d+\.\d\ds  mem=\d+\.\dMiB\n)");
  EXPECT_TRUE(std::regex_match(end.err, line)) << end.err;
  EXPECT_EQ(sh({"--quiet"}, "exit 5").err, "");
}

TEST_F(Run, TheSummaryAsJson) {
  const Finished end = sh({"--summary", "json"}, "exit 5");
  const auto summary = boost::json::parse(end.err).as_object();
  EXPECT_EQ(summary.at("exit_code").as_int64(), 5);
  EXPECT_EQ(summary.at("sandbox_id").as_string().size(), 26U);
  EXPECT_TRUE(summary.at("signal").is_null());
  EXPECT_FALSE(summary.at("timed_out").as_bool());
  EXPECT_FALSE(summary.at("oom_killed").as_bool());
  EXPECT_GE(summary.at("duration_ms").as_int64(), 0);
  EXPECT_GT(summary.at("peak_memory_mb").to_number<double>(), 0);
  EXPECT_TRUE(summary.at("messages").as_array().empty());
}

TEST_F(Run, TimeIsLimited) {
  const Finished end =
      sh({"--timeout", "300ms"}, "trap '' TERM; (setsid cat /dev/zero >/dev/null) & wait; wait");
  EXPECT_EQ(end.status, 124);
  EXPECT_TRUE(std::regex_search(
      end.err, std::regex(R"(\[sandbox\] time limit exceeded: limit is 0\.3 s, used \d+\.\d s\n)")))
      << end.err;
}

TEST_F(Run, CpuTimeIsLimited) {
  const Finished end = sh({"--cpu-seconds", "0.3"}, "while :; do :; done");
  EXPECT_EQ(end.status, 137);
  EXPECT_TRUE(std::regex_search(
      end.err, std::regex(R"(\[sandbox\] CPU limit exceeded: limit is 0\.3 s, used 0\.\d\d s\n)")))
      << end.err;
}

TEST_F(Run, MemoryIsLimited) {
  const Finished end = caisson({"run", "--memory", "48m", "--", "/usr/bin/python3", "-Ic",
                                "held = bytearray(b'x') * (200 << 20)"});
  EXPECT_EQ(end.status, 137);
  EXPECT_TRUE(std::regex_search(
      end.err,
      std::regex(
          R"(\[sandbox\] memory limit exceeded: limit is 48\.0 MiB, peak \d+\.\d MiB; 1 process)")))
      << end.err;
}

TEST_F(Run, ProcessesAreLimited) {
  const Finished end = caisson({"run", "--pids", "16", "--", "/usr/bin/python3", "-Ic", R"(
import os, signal
made = 0
try:
    while made < 500:
        if os.fork() == 0: signal.pause()
        made += 1
except BlockingIOError: print(made <= 18)
)"});
  EXPECT_EQ(end.out, "True\n") << end.err;
}

TEST_F(Run, DiskIsLimited) {
  const Finished end = sh({"--disk", "4m"}, "cat /dev/zero >/tmp/big; cat /dev/zero >big2");
  EXPECT_EQ(end.status, 1);
  EXPECT_NE(end.err.find("No space left"), std::string::npos) << end.err;
}

TEST_F(Run, NoVariableOfTheCallersPassesByItself) {
  env_ = {"PLAIN=visible", "API_KEY=hunter2", "LD_PRELOAD_X=1"};
  const Finished end = sh({"-q"}, "env | sort");
  EXPECT_EQ(end.out.find("visible"), std::string::npos) << end.out;
  EXPECT_EQ(end.out.find("hunter2"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("PATH="), std::string::npos) << end.out;
  EXPECT_EQ(end.out.find("CAISSON_STATE_DIR"), std::string::npos) << end.out;
}

TEST_F(Run, VariablesAreSetAndPassedByName) {
  env_ = {"PLAIN=visible", "API_KEY=hunter2"};
  EXPECT_EQ(sh({"-q", "--env", "A=1", "--env", "PLAIN"}, "echo $A $PLAIN").out, "1 visible\n");
  EXPECT_EQ(sh({"-q", "--env", "API_KEY=meant"}, "echo $API_KEY").out, "meant\n");
  // The last word counts, also for what every sandbox has; and each name is there once.
  const Finished direct = caisson(
      {"run", "-q", "--env", "HOME=/x", "--env", "B=1", "--env", "B=2", "--", "/usr/bin/env"});
  EXPECT_NE(direct.out.find("HOME=/x\n"), std::string::npos) << direct.out;
  EXPECT_NE(direct.out.find("B=2\n"), std::string::npos) << direct.out;
  EXPECT_EQ(direct.out.find("HOME=/tmp"), std::string::npos) << direct.out;
  EXPECT_EQ(direct.out.find("B=1\n"), std::string::npos) << direct.out;
  const Finished refused = sh({"--env", "API_KEY"}, "echo $API_KEY");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("--env: 'API_KEY' looks like a secret"), std::string::npos)
      << refused.err;
}

TEST_F(Run, TheContractsRulesForVariables) {
  env_ = {"PLAIN=visible", "OTHER=too",     "MY_TOKEN=t",
          "AWS_REGION=r",  "OPENAI_BASE=o", "db_password=p"};
  const std::string show = "echo $PLAIN $OTHER $MY_TOKEN $AWS_REGION $OPENAI_BASE $db_password";
  EXPECT_EQ(sh(config("{}\n"), show).out, "\n");
  EXPECT_EQ(sh(config("permissions: [read_env]\n"), show).out, "visible too\n");
  EXPECT_EQ(sh(config("permissions: [read_env]\nenv_allowlist: [OTHER, MY_TOKEN]\n"), show).out,
            "too\n");
  EXPECT_EQ(sh(config("permissions: [read_env]\nenv_allowlist: []\n"), show).out, "\n");
  EXPECT_EQ(sh(config("env_allowlist: [PLAIN]\n"), show).out, "\n");
}

TEST_F(Run, UserAndFolderInside) {
  EXPECT_EQ(sh({"-q"}, "id -u; id -g; pwd").out, "1000\n1000\n" + folder_.path() + "\n");
  EXPECT_EQ(sh({"-q", "--user", "0"}, "id -u; id -g").out, "0\n0\n");
  EXPECT_EQ(sh({"-q", "--user", "7:8"}, "id -u; id -g").out, "7\n8\n");
  EXPECT_EQ(sh({"-q", "--workdir", "/usr"}, "pwd").out, "/usr\n");
}

TEST_F(Run, TheCurrentFolderIsAPrivateCopy) {
  folder_.write("kept", "before");
  const Finished end =
      sh({"-q"}, "cat kept; echo changed >kept; echo new >made; cat kept; rm kept; ls");
  EXPECT_EQ(end.out, "beforechanged\nmade\n") << end.err;
  EXPECT_EQ(folder_.read("kept"), "before");
  EXPECT_FALSE(folder_.has("made"));
  EXPECT_EQ(sh({"-q", "--no-folder"}, "pwd; ls").out, "/workspace\n");
}

TEST_F(Run, AWritableFolderIsTheRealOne) {
  Folder granted;
  granted.write("kept", "before");
  const std::string path = granted.path();
  const Finished end =
      sh({"-q", "--writable", path},
         "cd " + path +
             " && cat kept && echo changed >kept && echo new >made; ls -ln made | cut -d' ' -f3");
  EXPECT_EQ(end.status, 0) << end.err;
  EXPECT_EQ(end.out, "before1000\n");
  EXPECT_EQ(granted.read("kept"), "changed\n");
  EXPECT_EQ(granted.read("made"), "new\n");
  struct stat facts{};
  ASSERT_EQ(::stat((path + "/made").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, ::geteuid()) << "owned by the folder's owner, as if he had written it";
}

TEST_F(Run, SomeFoldersAreNeverShown) {
  Folder home;
  for (const std::string& folder :
       {std::string("/"), std::string("/etc"), std::string("/root"), state_dir(), home.path()}) {
    ProgramOptions options;
    options.folder = folder;
    options.env = {"HOME=" + home.path()};
    const Finished end = run_sh({}, "pwd; ls -A", options);
    EXPECT_EQ(end.out, "/workspace\n") << folder << end.err;
    EXPECT_EQ(std::ranges::count(end.err, '\n'), 2) << end.err;  // the remark and the summary
    EXPECT_FALSE(end.line("[sandbox] the current folder is not shown inside: ").empty()) << end.err;
    const Finished granted = run_sh({"--writable", folder}, "true", options);
    EXPECT_NE(granted.status, 0) << folder;
    EXPECT_EQ(granted.out, "");
  }
}

TEST_F(Run, ADryRunSaysWhatWouldHoldAndStartsNothing) {
  const Finished text = sh({"--dry-run", "--memory", "64m"}, "echo ran >&2");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.err, "");
  for (const char* word : {"tier", "memory", "67108864", "seccomp", "landlock", "network"})
    EXPECT_NE(text.out.find(word), std::string::npos) << word << text.out;
  const Finished json = sh({"--dry-run", "--summary", "json"}, "true");
  EXPECT_FALSE(boost::json::parse(json.out).as_object().at("mechanisms").as_array().empty());
}

}  // namespace
}  // namespace caisson::test
