// `caisson run --config`: what a capability file declares is what the kernel enforces. And the
// commands that only look: validate, doctor, completion, help.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <regex>

#include "tests/integration/program.h"

namespace caisson::test {
namespace {

class Capability : public testing::Test {
 protected:
  ~Capability() override { EXPECT_TRUE(nothing_on_record()); }

  // A shell's script needs processes; what else it may do is the test's.
  Finished sh(const std::string& config, const std::string& script) {
    ProgramOptions options;
    options.folder = folder_.path();
    const std::string whole = "permissions: [spawn_subprocess]\n" + config;
    return run_sh({"-q", "--config", config_.write("cap.yaml", whole)}, script, options);
  }
  Finished validate(const std::string& config, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"validate", "--config", config_.write("cap.yaml", config)});
    return caisson(more);
  }

  Folder folder_;
  Folder config_;
};

// Tries to write in every place that some mode allows, and names those where it worked.
constexpr const char* kWriteEverywhere = R"(
for place in . sub /tmp /run /dev/shm /workspace /usr /usr/bin /etc / /opt/made /var /root; do
  if ( : >$place/written ) 2>/dev/null; then echo $place; fi
done)";

TEST_F(Capability, ReadOnlyWritesNothingTmpIncluded) {
  folder_.write("file", "text");
  for (const char* config : {"", "filesystem_config: {mode: read_only}\n",
                             "filesystem_config: {mode: read_only, writable_paths: [/tmp, .]}\n"}) {
    const Finished end = sh(config, std::string("cat file; pwd") + kWriteEverywhere);
    EXPECT_EQ(end.out, "text" + folder_.path() + "\n") << config << end.err;
  }
  EXPECT_EQ(sh("", "chmod 777 file || mkdir d || ln file l || touch file || rm file").status, 1);
  EXPECT_EQ(folder_.read("file"), "text");
}

TEST_F(Capability, ReadWriteWritesWhatIsListed) {
  std::filesystem::create_directory(folder_.path() + "/sub");
  const Finished end =
      sh("filesystem_config: {mode: read_write, writable_paths: [sub, /tmp, /opt/made]}\n",
         kWriteEverywhere);
  EXPECT_EQ(end.out, "sub\n/tmp\n/opt/made\n") << end.err;
  EXPECT_TRUE(folder_.has("sub/written")) << "a listed folder of the host is the host's own";
  EXPECT_FALSE(folder_.has("written"));
  EXPECT_FALSE(std::filesystem::exists("/opt/made"));
}

TEST_F(Capability, ReadWriteWithoutAListIsEverywhereAndPrivate) {
  std::filesystem::create_directory(folder_.path() + "/sub");
  const Finished end = sh("filesystem_config: {mode: read_write}\n",
                          std::string("id -u; mkdir -p /opt/made") + kWriteEverywhere);
  EXPECT_EQ(end.out,
            "0\n.\nsub\n/tmp\n/run\n/dev/shm\n/workspace\n/usr\n/usr/bin\n/etc\n/\n/opt/made\n"
            "/var\n/root\n")
      << end.err;
  EXPECT_FALSE(folder_.has("written"));
  for (const char* path : {"/usr/written", "/etc/written", "/written", "/tmp/written"})
    EXPECT_FALSE(std::filesystem::exists(path)) << path;
}

TEST_F(Capability, NoneHasNoWorkingFolderAndNothingWritable) {
  folder_.write("file", "secret");
  const Finished end = sh("filesystem_config: {mode: none}\n",
                          "pwd; cat " + folder_.path() + "/file 2>/dev/null" + kWriteEverywhere);
  EXPECT_EQ(end.out, "/\n") << end.err;
}

TEST_F(Capability, WithoutSpawnSubprocessNoProcessStarts) {
  ProgramOptions options;
  options.folder = folder_.path();
  const std::string config = config_.write("cap.yaml", "{}\n");
  const Finished end = run_sh({"--config", config}, "/bin/true; echo unreachable", options);
  EXPECT_NE(end.status, 0);
  EXPECT_EQ(end.out.find("unreachable"), std::string::npos) << end.out;
  EXPECT_TRUE(end.line("[sandbox] note: ")
                  .starts_with("[sandbox] note: the capability does not grant spawn_subprocess"))
      << end.err;
  const Finished threads =
      caisson({"run", "-q", "--config", config, "--", "/usr/bin/python3", "-Ic",
               "import threading\nt = threading.Thread(target=print, args=('thread',))\n"
               "t.start(); t.join()\nimport os\n"
               "for call in (os.fork, lambda: os.posix_spawn('/bin/true', ['x'], {})):\n"
               "    try: call(); print('STARTED')\n"
               "    except OSError as error: print('refused')"});
  EXPECT_EQ(threads.out, "thread\nrefused\nrefused\n") << threads.err;
  EXPECT_EQ(sh("", "/bin/true && echo reached").out, "reached\n");
}

TEST_F(Capability, LimitsOfTheFileHold) {
  ProgramOptions options;
  options.folder = folder_.path();
  const std::string cpu = config_.write("cpu.yaml", "resource_limits: {max_cpu_seconds: 0.2}\n");
  const Finished spun = run_sh({"--config", cpu}, "while :; do :; done", options);
  EXPECT_EQ(spun.status, 137);
  EXPECT_NE(spun.err.find("CPU limit exceeded: limit is 0.2 s"), std::string::npos) << spun.err;
  const std::string memory = config_.write("memory.yaml", "resource_limits: {max_memory_mb: 40}\n");
  const Finished grown = caisson({"run", "--config", memory, "--", "/usr/bin/python3", "-Ic",
                                  "held = bytearray(b'x') * (100 << 20)"});
  EXPECT_EQ(grown.status, 137);
  EXPECT_NE(grown.err.find("memory limit exceeded: limit is 40.0 MiB"), std::string::npos)
      << grown.err;
}

TEST_F(Capability, EgressRulesHoldAndWhatTheyDoNotAllowIsTold) {
  const Finished end = sh("network_egress_rules: [{domain: example.com}]\n",
                          "curl -sS http://elsewhere.test/ | head -1");
  EXPECT_EQ(end.status, 0) << end.err;
  EXPECT_EQ(end.out, "Host not allowed: elsewhere.test\n");
  EXPECT_NE(end.err.find("[sandbox] network: denied: elsewhere.test:80"), std::string::npos)
      << end.err;
}

TEST_F(Capability, ARuleWhoseSecretIsMissingIsRefusedNotIgnored) {
  const Finished end =
      sh("network_egress_rules: [{domain: example.com, inject: [{header: A, secret: key}]}]\n",
         "true");
  EXPECT_EQ(end.status, 2);
  EXPECT_NE(end.err.find("needs the secret 'key'"), std::string::npos) << end.err;
}

// ---------------------------------------------------------------------------------------------

TEST_F(Capability, ValidateSaysWhatWouldHold) {
  const Finished text = validate("resource_limits: {max_memory_mb: 64}\npermissions: [read_env]\n");
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(text.err, "");
  EXPECT_EQ(text.out,
            "VALID\n"
            "  sandbox_tier:    seccomp\n"
            "  filesystem_mode: read_only\n"
            "  max_memory_mb:   64\n"
            "  max_cpu_seconds: 30.0\n"
            "  max_cost_usd:    0.10\n"
            "  max_tokens:      100000\n"
            "  egress_rules:    0\n"
            "  permissions:     read_env\n");
  const Finished json = validate("{}\n", {"--output", "json"});
  EXPECT_EQ(json.status, 0);
  const auto answer = boost::json::parse(json.out).as_object();
  EXPECT_TRUE(answer.at("valid").as_bool());
  EXPECT_EQ(answer.at("capability").at("resource_limits").at("max_memory_mb").as_int64(), 512);
}

TEST_F(Capability, ValidateSaysWhatIsWrongAndWhere) {
  const Finished text = validate("resource_limits:\n  max_memory_mb: 0\n");
  EXPECT_EQ(text.status, 1);
  EXPECT_NE(text.err.find("capability validation error: "), std::string::npos) << text.err;
  EXPECT_NE(text.err.find("max_memory_mb"), std::string::npos) << text.err;
  const Finished json = validate("surprise: 1\n", {"--output", "json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_EQ(json.err, "");
  const auto answer = boost::json::parse(json.out).as_object();
  EXPECT_FALSE(answer.at("valid").as_bool());
  EXPECT_EQ(answer.at("error").as_string().find("capability validation error: "), 0U);
  EXPECT_EQ(caisson({"validate"}).status, 2);
}

TEST_F(Capability, EveryCommandHasHelpAndAVersion) {
  const std::string version = caisson({"--version"}).out;
  EXPECT_TRUE(std::regex_match(version, std::regex(R"(caisson \d+\.\d+\.\d+\n)"))) << version;
  EXPECT_EQ(caisson({"--help"}).status, 0);
  for (const char* command : {"run", "validate", "inspect", "doctor", "bench", "completion"}) {
    const Finished help = caisson({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_NE(help.out.find(std::string("caisson ") + command), std::string::npos) << help.out;
    EXPECT_EQ(help.err, "") << command;
    const Finished said = caisson({command, "--version"});
    EXPECT_EQ(said.status, 0) << command << said.err;
    EXPECT_EQ(said.out, version) << command;
    const Finished wrong = caisson({command, "--no-such-flag"});
    EXPECT_EQ(wrong.status, 2) << command;
    EXPECT_EQ(std::ranges::count(wrong.err, '\n'), 1) << wrong.err;
    EXPECT_TRUE(wrong.err.starts_with(std::string("caisson ") + command + ": ")) << wrong.err;
  }
  EXPECT_EQ(caisson({"no-such-command"}).status, 2);
  EXPECT_EQ(caisson({}).status, 2);
}

TEST_F(Capability, DoctorSpeaksJson) {
  const Finished end = caisson({"doctor", "--json"});
  EXPECT_EQ(end.status, 0) << end.err;
  const auto answer = boost::json::parse(end.out).as_object();
  EXPECT_GT(answer.at("landlock_abi").as_int64(), 0);
  EXPECT_FALSE(answer.at("checks").as_array().empty());
  EXPECT_FALSE(caisson({"doctor"}).out.empty());
}

TEST_F(Capability, CompletionScriptsAreScripts) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Finished end = caisson({"completion", shell});
    EXPECT_EQ(end.status, 0);
    EXPECT_NE(end.out.find("caisson"), std::string::npos);
  }
  EXPECT_EQ(caisson({"completion", "csh"}).status, 2);
}

TEST_F(Capability, InspectKnowsNobodyWithoutAServer) {
  const Finished end = caisson({"inspect", "--sandbox-id", std::string(26, 'a')});
  EXPECT_EQ(end.status, 1);
  EXPECT_EQ(std::ranges::count(end.err, '\n'), 1) << end.err;
  EXPECT_EQ(caisson({"inspect", "--sandbox-id", "../etc"}).status, 2);
}

}  // namespace
}  // namespace caisson::test
