#include "sys/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::sys {
namespace {

// A shell that runs `script`; started without fork(), which sanitizers and threads dislike.
Child start(std::string script) {
  std::string words[] = {"sh", "-c", std::move(script)};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  char* envp[] = {nullptr};
  pid_t pid = -1;
  EXPECT_EQ(::posix_spawn(&pid, "/bin/sh", nullptr, nullptr, argv, envp), 0);
  UniqueFd pidfd(raw::pidfd_open(pid));
  EXPECT_TRUE(pidfd);
  return Child::adopt(pid, std::move(pidfd));
}

constexpr const char* kForEver = "kill -STOP $$";  // a stopped process ends only by SIGKILL

bool is_our_child(pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != -1 || errno != ECHILD; }

TEST(Child, GoingAwayKillsAndReaps) {
  pid_t pid = -1;
  {
    const Child child = start(kForEver);
    pid = child.pid();
    EXPECT_TRUE(child.alive());
    EXPECT_TRUE(is_our_child(pid));
  }
  EXPECT_FALSE(is_our_child(pid));
}

TEST(Child, AssigningEndsTheOneBefore) {
  Child child = start(kForEver);
  const pid_t first = child.pid();
  child = start("exit 4");
  EXPECT_FALSE(is_our_child(first));
  const auto status = child.wait();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 4);
  EXPECT_EQ(status->signal, 0);
}

TEST(Child, MovingDoesNotEndIt) {
  Child first = start(kForEver);
  Child second = std::move(first);
  EXPECT_TRUE(second.alive());
  EXPECT_EQ(second.try_wait().value(), std::nullopt);
  ASSERT_TRUE(second.signal(SIGKILL));
  const auto status = second.wait();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, -1);
  EXPECT_EQ(status->signal, SIGKILL);
}

TEST(Child, AfterTheEndThereIsNobodyToSignalOrWaitFor) {
  Child child = start("exit 0");
  ASSERT_TRUE(child.wait());
  EXPECT_FALSE(child.alive());
  EXPECT_LT(child.pid(), 0);
  EXPECT_EQ(child.signal(SIGKILL).error().code, Errc::NotFound);
  EXPECT_EQ(child.wait().error().code, Errc::NotFound);
  EXPECT_EQ(child.try_wait().error().code, Errc::NotFound);
  const Child none;
  EXPECT_FALSE(none.alive());
  EXPECT_FALSE(none.signal(SIGKILL));
}

TEST(Child, TryWaitSaysNothingUntilItEnds) {
  Child child = start(kForEver);
  EXPECT_EQ(child.try_wait().value(), std::nullopt);
  ASSERT_TRUE(child.signal(SIGKILL));
  // A pidfd is readable once the process has ended.
  ASSERT_TRUE(wait_ready(child.pidfd(), POLLIN, Clock::now() + seconds(60)).value());
  const auto status = child.try_wait().value();
  EXPECT_EQ(status.value_or(ExitStatus{}).signal, SIGKILL);
}

TEST(WaitReady, ADeadlineInThePastDoesNotWait) {
  const auto pipe = make_pipe();
  EXPECT_FALSE(wait_ready(pipe->read.get(), POLLIN, Clock::now() - seconds(1)).value());
  EXPECT_TRUE(wait_ready(pipe->write.get(), POLLOUT, Clock::now() - seconds(1)).value());
}

TEST(WaitReady, ReturnsAtItsDeadlineAndNotBefore) {
  const auto pipe = make_pipe();
  const TimePoint deadline = Clock::now() + milliseconds(20);
  EXPECT_FALSE(wait_ready(pipe->read.get(), POLLIN, deadline).value());
  EXPECT_GE(Clock::now(), deadline);
}

TEST(WaitReady, BytesAndAClosedPeerAreBothReady) {
  auto pipe = make_pipe();
  ASSERT_TRUE(write_once(pipe->write.get(), "x"));
  EXPECT_TRUE(wait_ready(pipe->read.get(), POLLIN, std::nullopt).value());
  char byte = 0;
  ASSERT_EQ(::read(pipe->read.get(), &byte, 1), 1);
  pipe->write.reset();
  EXPECT_TRUE(wait_ready(pipe->read.get(), POLLIN, std::nullopt).value());
}

}  // namespace
}  // namespace caisson::sys
