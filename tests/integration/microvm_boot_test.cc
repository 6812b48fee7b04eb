// A machine from its jail to the answer of our init, emulated, without a launcher.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "microvm_kit.h"

namespace caisson::test {
namespace {

TimePoint in_a_minute() { return Clock::now() + std::chrono::seconds(60); }

class MicrovmBoot : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_machines(); !why.empty()) GTEST_SKIP() << why;
  }
  static std::string run(engine::GuestSession& session, const std::string& script,
                         engine::GuestUser user = {1000, 1000}) {
    engine::ExecRequest command;
    command.argv = {"/bin/sh", "-c", script};
    command.env = {"PATH=/bin"};
    command.user = user;
    command.timeout = std::chrono::seconds(30);
    const auto done = session.execute(command);
    return done ? done->out + done->err : done.error().message;
  }
};

TEST_F(MicrovmBoot, AnswersAndRunsCommands) {
  engine::LaunchRequest request;
  request.hostname = "boxy";
  request.writable = {"/data"};
  const auto began = Clock::now();
  BareMachine box({.request = request});
  ASSERT_EQ(box.configure(in_a_minute()), "");
  std::cout << "first answer after " << std::chrono::duration<double>(Clock::now() - began).count()
            << " s\n";
  auto session = box.session(in_a_minute());
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(run(*session, "echo hello; id -u"), "hello\n1000\n");
  EXPECT_EQ(run(*session, "hostname"), "boxy\n");
  EXPECT_EQ(run(*session,
                "echo x >/workspace/f && echo y >/data/f && echo z >/tmp/f && cat "
                "/workspace/f /data/f /tmp/f"),
            "x\ny\nz\n");
  EXPECT_NE(run(*session, "echo x >/etc/f").find("Read-only"), std::string::npos);
  EXPECT_NE(run(*session, "echo x >/proc/sys/kernel/core_pattern", {0, 0}).find("Read-only"),
            std::string::npos);
  EXPECT_NE(run(*session, "mount -t tmpfs none /tmp", {0, 0}).find("ermi"), std::string::npos);
  EXPECT_EQ(run(*session, "cat /proc/kallsyms | wc -c"), "0\n");
  EXPECT_EQ(run(*session, "cat /proc/1/status | head -1"), "Name:\tcaisson-init\n");
}

TEST_F(MicrovmBoot, LimitsOfTheMachineHold) {
  engine::LaunchRequest request;
  request.limits.disk_bytes = 32ULL << 20U;
  request.limits.processes = 20;
  BareMachine box({.request = request});
  ASSERT_EQ(box.configure(in_a_minute()), "");
  auto session = box.session(in_a_minute());
  ASSERT_NE(session, nullptr);
  EXPECT_NE(run(*session, "dd if=/dev/zero of=/tmp/f bs=1M count=64 2>&1").find("No space"),
            std::string::npos);
  EXPECT_EQ(run(*session, "rm /tmp/f; echo again >/tmp/f; cat /tmp/f"), "again\n");
  EXPECT_NE(run(*session,
                "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 "
                "25; do sleep 20 & done; echo all")
                .find("fork"),
            std::string::npos);
  engine::ExecRequest hog;
  // Each fits, both do not.
  hog.argv = {"/bin/sh", "-c",
              "dd if=/dev/zero of=/dev/null bs=150M count=4 & "
              "dd if=/dev/zero of=/dev/null bs=150M count=4; wait"};
  hog.env = {"PATH=/bin"};
  hog.user = {1000, 1000};
  hog.timeout = std::chrono::seconds(30);
  const auto eaten = session->execute(hog);
  ASSERT_TRUE(eaten) << eaten.error().message;
  EXPECT_TRUE(eaten->oom_killed) << eaten->exit_code << eaten->err;
  EXPECT_EQ(run(*session, "echo alive"), "alive\n");
}

TEST_F(MicrovmBoot, ABrokenMachineSaysWhere) {
  // A disk that nobody has formatted: there is no place to write.
  const UniqueFd blank =
      must_have(sys::open_at(AT_FDCWD, MachineKit::get().path(), O_RDWR | O_TMPFILE, 0600));
  ASSERT_EQ(::ftruncate(blank.get(), 64 << 20), 0);
  BareMachine box({.upper = blank.get()});
  const std::string why = box.configure(in_a_minute());
  EXPECT_NE(why.find("caisson-upper"), std::string::npos) << why;
}

TEST_F(MicrovmBoot, StopsAndGoesOn) {
  BareMachine box({});
  ASSERT_EQ(box.configure(in_a_minute()), "");
  ASSERT_TRUE(box.machine().stop(in_a_minute()));
  auto state = box.machine().run_state(in_a_minute());
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(*state, microvm::RunState::Stopped);
  ASSERT_TRUE(box.machine().go_on(in_a_minute()));
  auto session = box.session(in_a_minute());
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(run(*session, "echo on"), "on\n");
}

}  // namespace
}  // namespace caisson::test
