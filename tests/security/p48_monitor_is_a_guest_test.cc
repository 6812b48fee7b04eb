// P48: the monitor of a machine is a guest, too. Whoever takes it over, from inside, finds a
// process that has no right, no network, nothing of the host but its programs, and no device that
// the guest did not need.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/integration/microvm_kit.h"

namespace caisson::test {
namespace {

namespace fs = std::filesystem;

TimePoint in_a_minute() { return Clock::now() + std::chrono::seconds(60); }

class P48Monitor : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_machines(); !why.empty()) GTEST_SKIP() << why;
    box_.emplace(BareMachine::Options{});
    ASSERT_EQ(box_->configure(in_a_minute()), "");
    proc_ = "/proc/" + std::to_string(box_->machine().pid());
  }
  [[nodiscard]] std::string status(const std::string& key) const {
    std::ifstream file(proc_ + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(key + ":"))
        return line.substr(std::min(line.size(), line.find_first_not_of(" \t", key.size() + 1)));
    }
    return "no line";
  }

  std::optional<BareMachine> box_;
  std::string proc_;
};

TEST_F(P48Monitor, HasNoRight) {
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    EXPECT_EQ(status(set), "0000000000000000") << set;
  EXPECT_EQ(status("NoNewPrivs"), "1");
  EXPECT_EQ(status("Seccomp"), "2");
  EXPECT_EQ(status("Uid").substr(0, 5), std::to_string(microvm::kMonitorId));
  EXPECT_EQ(status("Groups").find_first_of("0123456789"), std::string::npos);
}

TEST_F(P48Monitor, SharesNoNamespace) {
  for (const char* kind : {"mnt", "net", "ipc", "uts", "pid", "cgroup"}) {
    EXPECT_NE(fs::read_symlink(proc_ + "/ns/" + kind),
              fs::read_symlink(std::string("/proc/self/ns/") + kind))
        << kind;
  }
  std::ifstream devices(proc_ + "/net/dev");
  std::string text{std::istreambuf_iterator<char>(devices), {}};
  EXPECT_EQ(std::ranges::count(text, ':'), 1) << text;  // lo, which is down
}

TEST_F(P48Monitor, SeesTheSystemsProgramsAndNothingElse) {
  std::set<std::string> names;
  for (const auto& one : fs::directory_iterator(proc_ + "/root"))
    names.insert(one.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"initramfs", "kernel", "lib", "lib32", "lib64", "memory",
                                          "usr"}));
  std::ifstream mounts(proc_ + "/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string what, where, type, options;
    words >> what >> where >> type >> options;
    // What it may write is one file, its machine's memory: see below.
    EXPECT_EQ(options.starts_with("ro,"), where != "/memory") << line;
    EXPECT_NE(options.find("nosuid"), std::string::npos) << line;
    EXPECT_NE(options.find("nodev"), std::string::npos) << line;
  }
}

// Its machine's memory lies there, of a size that does not change, and nothing can be put beside
// it.
TEST_F(P48Monitor, WritesItsMemoryAndMakesNoFile) {
  const std::string folder = proc_ + "/root/memory";
  std::set<std::string> names;
  for (const auto& one : fs::directory_iterator(folder)) names.insert(one.path().filename());
  EXPECT_EQ(names, std::set<std::string>{"ram"});
  EXPECT_EQ(fs::file_size(folder + "/ram"), 256ULL << 20U);
  struct stat facts{};
  ASSERT_EQ(::stat(folder.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777U, 0555U);
  EXPECT_EQ(facts.st_uid, 0U);
  EXPECT_EQ(fs::space(folder).capacity, 256ULL << 20U);
}

TEST_F(P48Monitor, HoldsOnlyWhatItWasHanded) {
  std::size_t sockets = 0;
  for (const auto& one : fs::directory_iterator(proc_ + "/fd")) {
    const std::string target = fs::read_symlink(one.path());
    if (target.starts_with("socket:")) ++sockets;
    const bool plain = target.starts_with("socket:") || target.starts_with("pipe:") ||
                       target.starts_with("anon_inode:") || target == "/dev/null" ||
                       target.find("image.erofs") != std::string::npos ||
                       target.find("/vm/disks/") != std::string::npos ||
                       target.find("memfd:") != std::string::npos || target == "/kernel" ||
                       target == "/initramfs" || target == "/memory/ram";
    EXPECT_TRUE(plain) << target;
    if (target.find("image.erofs") == std::string::npos) continue;
    std::ifstream info(proc_ + "/fdinfo/" + one.path().filename().string());
    std::string text{std::istreambuf_iterator<char>(info), {}};
    const std::size_t at = text.find("flags:");
    ASSERT_NE(at, std::string::npos);
    const unsigned long flags = std::stoul(text.substr(at + 6), nullptr, 8);
    EXPECT_EQ(flags & O_ACCMODE, static_cast<unsigned long>(O_RDONLY)) << "the shared image";
  }
  EXPECT_EQ(sockets, 2U);  // the stream, and the launcher's questions
}

TEST_F(P48Monitor, LeavesNoCoreAndOpensFewFiles) {
  std::ifstream file(proc_ + "/limits");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("Max core file size        0"), std::string::npos) << text;
  EXPECT_NE(text.find("Max open files            64"), std::string::npos) << text;
}

TEST_F(P48Monitor, OneThatStandsStillHoldsNobodyUp) {
  ASSERT_EQ(::kill(box_->machine().pid(), SIGSTOP), 0);
  const auto answer = box_->machine().stop(Clock::now() + std::chrono::milliseconds(100));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::TimedOut);
  EXPECT_TRUE(box_->machine().kill());
  EXPECT_TRUE(box_->machine().wait());
}

TEST_F(P48Monitor, OneThatIsKilledEndsTheStream) {
  ASSERT_TRUE(box_->machine().kill());
  char byte = 0;
  EXPECT_FALSE(read_exactly(box_->stream(), &byte, 1, in_a_minute()));
  EXPECT_TRUE(box_->machine().wait());
}

}  // namespace
}  // namespace caisson::test
