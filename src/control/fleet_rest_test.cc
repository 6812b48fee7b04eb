// Sandboxes that rest while nobody uses them.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "control/fleet_fixture_test.h"

namespace caisson::control::test {
namespace {

constexpr double kSoon = 0.02;

class RestTest : public FleetTest {
 protected:
  std::string create_restful(double seconds = kSoon) {
    CreateWish wish;
    wish.limits.rest_seconds = seconds;
    return create(std::move(wish));
  }
  bool resting(const std::string& id) { return fleet_->get(me_, id)->resting; }
  void until_resting(const std::string& id) {
    until([&] { return resting(id); });
  }
  std::size_t rows(std::string_view action) const {
    return static_cast<std::size_t>(
        std::ranges::count(store_.rows, action, &store::AuditEvent::action));
  }
};

TEST_F(RestTest, OneThatNobodyUsesStandsStillUntilItIsUsed) {
  open();
  const std::string id = create_restful();
  EXPECT_EQ(fleet_->get(me_, id)->rest_seconds, kSoon);
  until_resting(id);
  EXPECT_EQ(fleet_->get(me_, id)->state, State::Running);  // to a client it is there
  EXPECT_TRUE(world_.boxes.at(id).frozen);
  until([&] { return world_.reclaims == 1; });
  EXPECT_EQ(rows("sandbox.rest"), 1U);
  EXPECT_EQ(fleet_->counters().resting, 1U);
  EXPECT_EQ(fleet_->counters().rested, 1U);
  // To look is not to use.
  ASSERT_TRUE(run(fleet_->usage(me_, id)));
  EXPECT_TRUE(resting(id));
  ASSERT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
  EXPECT_FALSE(world_.boxes.at(id).frozen);
  EXPECT_EQ(world_.thaws, 1);
  until_resting(id);  // and again
}

TEST_F(RestTest, WithoutAWishNobodyRests) {
  open();
  const std::string id = create();
  const std::string never = create_restful(0);
  const std::string other = create_restful();
  until_resting(other);
  EXPECT_FALSE(resting(id));
  EXPECT_FALSE(resting(never));
  EXPECT_FALSE(fleet_->get(me_, never)->rest_seconds);
}

TEST_F(RestTest, TheServersOwnSettingCountsAndCanBeChangedForOne) {
  options_.limits.rest_seconds = kSoon;
  open();
  const std::string id = create();
  until_resting(id);
  LimitWish wish;
  wish.rest_seconds = 0;
  ASSERT_TRUE(run(fleet_->set_limits(me_, id, wish)));
  EXPECT_TRUE(resting(id));
  ASSERT_TRUE(run(fleet_->stat(me_, id, "f", true)).error().code == Errc::NotFound);
  EXPECT_FALSE(resting(id));
  const std::string other = create();
  until_resting(other);
  EXPECT_FALSE(resting(id));
}

TEST_F(RestTest, ManyUsersAtOnceWakeItOnce) {
  open();
  const std::string id = create_restful();
  until_resting(id);
  const auto first = begin(fleet_->exec(me_, id, line("echo a")));
  const auto second = begin(fleet_->list_files(me_, id, ".", false));
  const auto third = begin(fleet_->processes(me_, id));
  until([&] { return first->has_value() && second->has_value() && third->has_value(); });
  EXPECT_TRUE(**first);
  EXPECT_TRUE(**third);
  EXPECT_EQ(world_.thaws, 1);
}

TEST_F(RestTest, EveryKindOfUseWakes) {
  open();
  const std::string id = create_restful();
  const auto wakes = [&](auto use) {
    until_resting(id);
    (void)run(use());
    EXPECT_FALSE(world_.boxes.at(id).frozen);
  };
  wakes([&] { return fleet_->stat(me_, id, "f", true); });
  wakes([&] { return fleet_->read_file(me_, id, "f", std::nullopt); });
  wakes([&] { return fleet_->make_folder(me_, id, "d", false); });
  ProcessWish process;
  process.exec = line("true");
  wakes([&] { return fleet_->start(me_, id, process); });
  wakes([&] { return fleet_->attach(me_, id, 77, 0, 0); });
  wakes([&] { return fleet_->watch(me_, id, ".", false); });
  wakes([&] { return fleet_->tar_out(me_, id, "."); });
  wakes([&] { return fleet_->ports(me_, id); });
  wakes([&] { return fleet_->connect_port(me_, id, 9); });
  wakes([&] { return fleet_->connect_again(me_, id, 9); });
  wakes([&] { return fleet_->snapshot(me_, id, {}); });
  wakes([&] { return fleet_->fork(me_, id, {}); });
  UndoWish back;
  back.calls = 1;
  wakes([&] { return fleet_->undo(me_, id, back); });
  wakes([&] { return fleet_->resume(me_, id); });
  until_resting(id);
  EXPECT_TRUE(tool(id, "file_list", "{}"));
  EXPECT_FALSE(world_.boxes.at(id).frozen);
}

TEST_F(RestTest, WhoIsUsedOrWorksDoesNotRest) {
  open();
  const std::string busy = create_restful();
  const auto exec = begin(fleet_->exec(me_, busy, line("hang")));
  until([&] { return !guest(busy).hanging.empty(); });
  const std::string idle = create_restful();
  until_resting(idle);
  EXPECT_FALSE(resting(busy));
  // From here on somebody in it uses the processor whenever it is looked at.
  world_.cpu_us_per_look = 1'000'000;
  const std::string works = create_restful();
  const std::uint64_t looks = world_.cpu_us;
  until([&] { return world_.cpu_us > looks + 4'000'000; });
  EXPECT_FALSE(resting(works));
  world_.cpu_us_per_look = 0;
  until_resting(works);
}

TEST_F(RestTest, AConnectionToAPortIsAUseAsLongAsItIsHeld) {
  open();
  const std::string id = create_restful();
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  auto inside = run(fleet_->connect_port(me_, id, ntohs(address.sin_port)));
  ASSERT_TRUE(inside) << inside.error().message;
  EXPECT_EQ(fleet_->busy_calls(), 1U);
  const std::string other = create_restful();
  until_resting(other);
  EXPECT_FALSE(resting(id));
  inside->use.reset();
  until_resting(id);
}

TEST_F(RestTest, WhatCannotBeWokenSaysSoAndIsTriedAgain) {
  open();
  const std::string id = create_restful();
  until_resting(id);
  world_.store.fails["thaw"] = Error{Errc::TimedOut, "it does not go on", 0};
  const auto failed = run(fleet_->exec(me_, id, line("echo x")));
  EXPECT_EQ(failed.error().code, Errc::TimedOut);
  EXPECT_NE(failed.error().message.find("wake"), std::string::npos);
  EXPECT_TRUE(resting(id));
  world_.store.fails.clear();
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
}

TEST_F(RestTest, WhatCannotStandStillGoesOn) {
  open();
  world_.store.fails["freeze"] = Error{Errc::TimedOut, "something in it cannot be stopped", 0};
  const std::string id = create_restful();
  until([&] { return world_.thaws > 0; });
  EXPECT_FALSE(resting(id));
  world_.store.fails.clear();
  until_resting(id);
}

TEST_F(RestTest, APauseIsSomebodysWishAndIsNotEndedByAUse) {
  open();
  const std::string id = create_restful();
  until_resting(id);
  ASSERT_EQ(run(fleet_->pause(me_, id))->state, State::Paused);
  EXPECT_FALSE(resting(id));
  EXPECT_EQ(run(fleet_->exec(me_, id, line("echo x"))).error().code, Errc::Busy);
  EXPECT_TRUE(world_.boxes.at(id).frozen);
  ASSERT_EQ(run(fleet_->resume(me_, id))->state, State::Running);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
}

TEST_F(RestTest, OneThatRestsIsDestroyedAndEndsWhenItIsIdleForTooLong) {
  open();
  const std::string gone = create_restful();
  until_resting(gone);
  EXPECT_TRUE(run(fleet_->destroy(me_, gone)));
  CreateWish wish;
  wish.limits.rest_seconds = kSoon;
  wish.limits.idle_seconds = 0.2;
  const std::string idle = create(wish);
  until([&] { return !fleet_->get(me_, idle); });
  EXPECT_EQ(store_.records.at(idle).end_reason, "idle");
  EXPECT_EQ(rows("sandbox.rest"), 2U);
}

TEST_F(RestTest, ANewServerFindsThemAwake) {
  open();
  const std::string id = create_restful();
  until_resting(id);
  close();
  open();
  EXPECT_FALSE(resting(id));
  EXPECT_FALSE(world_.boxes.at(id).frozen);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
  until_resting(id);
}

}  // namespace
}  // namespace caisson::control::test
