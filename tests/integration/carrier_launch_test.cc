// A carrier as the launcher starts it: in the place of init, with init's walls, and the other end
// of its stream for whoever runs the init that it speaks for.
#include <gtest/gtest.h>

#include <fstream>

#include "base/id.h"
#include "engine/host/features.h"
#include "engine/native/tier.h"
#include "engine/plan.h"
#include "init_harness.h"

namespace caisson::test {
namespace {

std::string status_line(int pid, const std::string& key) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":"))
      return line.substr(line.find_first_not_of(" \t", key.size() + 1));
  }
  return "no line";
}

std::size_t descriptors(int pid) {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(CarrierLaunch, PlaysInitForOneThatIsElsewhere) {
  std::string state = testing::TempDir() + "caisson-carrier-XXXXXX";
  ASSERT_NE(::mkdtemp(state.data()), nullptr);
  ASSERT_EQ(::chmod(state.c_str(), 0755), 0);
  engine::native::TierOptions options;
  options.host = engine::probe_host();
  options.state_dir = state;
  auto tier = engine::native::NativeTier::open(std::move(options));
  ASSERT_TRUE(tier) << tier.error().message;
  auto planned = engine::plan(engine::default_spec(), (*tier)->host());
  ASSERT_TRUE(planned) << planned.error().message;
  engine::LaunchRequest request = planned->request;
  const auto id = SandboxId::random();
  ASSERT_TRUE(id);
  request.id = id->str();
  request.program = engine::Program::Carrier;
  auto launched = (*tier)->launch(request, {});
  ASSERT_TRUE(launched) << launched.error().message;
  ASSERT_TRUE(launched->carried);
  const int carrier = launched->sandbox.init_pid();
  {
    InitSandbox init({.carried = true, .carried_end = launched->carried.get()});
    launched->carried.reset();
    auto session =
        engine::GuestSession::connect(std::move(launched->stream), launched->sandbox.nonce());
    ASSERT_TRUE(session) << session.error().message;
    engine::ExecRequest command;
    command.argv = {"/bin/echo", "carried"};
    command.user = kUser;
    command.cwd = "/";
    auto done = (*session)->execute(command);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->out, "carried\n");
    auto again = launched->sandbox.connect();
    ASSERT_TRUE(again) << again.error().message;
    auto second = engine::GuestSession::connect(std::move(*again), launched->sandbox.nonce());
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_TRUE((*second)->ping());
    EXPECT_TRUE(launched->sandbox.hold());
    launched->sandbox.release();
    EXPECT_TRUE((*second)->ping());

    EXPECT_EQ(status_line(carrier, "Seccomp"), "2");
    EXPECT_EQ(status_line(carrier, "NoNewPrivs"), "1");
    for (const char* set : {"CapEff", "CapPrm", "CapInh", "CapAmb"})
      EXPECT_EQ(status_line(carrier, set), "0000000000000000") << set;
    // 0…2 the null device, its three sockets, and the epoll set.
    EXPECT_LE(descriptors(carrier), 8U);
  }
  // The init has gone, and the carrier with it.
  pollfd end{launched->sandbox.pidfd(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 10000), 1);
  EXPECT_TRUE((*tier)->destroy(std::move(launched->sandbox)));
  tier->reset();
  std::filesystem::remove_all(state);
}

}  // namespace
}  // namespace caisson::test
