// One command in a sandbox of its own: it is gone whatever happens, and the audit has all of it.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include "control/fleet_fixture_test.h"

namespace caisson::control::test {
namespace {

class FleetOnce : public FleetTest {
 protected:
  std::vector<std::string> actions() const {
    std::vector<std::string> out;
    for (const auto& row : store_.rows) out.push_back(row.action);
    return out;
  }
};

TEST_F(FleetOnce, ItsSandboxIsGoneAndItsRowsAreThere) {
  open();
  const auto done = run(fleet_->run_once(me_, {}, line("echo x")));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->outcome.exit_code, 0);
  until([&] { return world_.boxes.empty(); });
  EXPECT_TRUE(fleet_->list(me_).empty());
  EXPECT_EQ(actions(), (std::vector<std::string>{"sandbox.create", "exec", "sandbox.end"}));
  for (const auto& row : store_.rows) EXPECT_EQ(row.sandbox, done->sandbox);
  EXPECT_EQ(fleet_->counters().created, 1U);
  EXPECT_EQ(fleet_->counters().ended, 1U);
}

TEST_F(FleetOnce, WhatCannotBeRunLeavesNothing) {
  open();
  EXPECT_EQ(run(fleet_->run_once(me_, {}, {})).error().field, "argv");
  until([&] { return world_.boxes.empty(); });
  CreateWish wish;
  wish.tools = {"file_read"};
  EXPECT_EQ(run(fleet_->run_once(me_, wish, line("true"))).error().code, Errc::Denied);
  until([&] { return world_.boxes.empty(); });
  wish = {};
  wish.persistent = true;
  EXPECT_EQ(run(fleet_->run_once(me_, wish, line("true"))).error().field, "persistent");
  wish = {};
  wish.checkpoint = Checkpoints::EachCall;
  EXPECT_EQ(run(fleet_->run_once(me_, wish, line("true"))).error().field, "checkpoint");
  world_.launch_fails = Error{Errc::Exhausted, "no slot is free", 0};
  EXPECT_EQ(run(fleet_->run_once(me_, {}, line("true"))).error().code, Errc::Exhausted);
  EXPECT_TRUE(world_.boxes.empty());
  EXPECT_TRUE(fleet_->list(me_).empty());
}

TEST_F(FleetOnce, WhatCannotBeRecordedIsNotAnswered) {
  open();
  store_.fails = true;
  EXPECT_EQ(run(fleet_->run_once(me_, {}, line("echo x"))).error().code, Errc::StoreFull);
  until([&] { return world_.boxes.empty(); });
}

// A caller who leaves while it is made, and one who leaves while it runs.
TEST_F(FleetOnce, ItEndsWithItsCaller) {
  open();
  for (const bool early : {true, false}) {
    asio::cancellation_signal left;
    bool over = false;
    asio::co_spawn(
        context_, fleet_->run_once(me_, {}, line("hang")),
        asio::bind_cancellation_slot(
            left.slot(), [&](const std::exception_ptr&, const Result<OnceView>&) { over = true; }));
    const std::size_t launches = world_.requests.size();
    until([&] {
      if (early) return world_.requests.size() > launches;
      return !world_.boxes.empty() && world_.boxes.begin()->second.guest &&
             !world_.boxes.begin()->second.guest->hanging.empty();
    });
    left.emit(asio::cancellation_type::all);
    until([&] { return over && world_.boxes.empty(); });
    EXPECT_TRUE(fleet_->list(me_).empty());
  }
}

// No other call makes it stay, and no later server takes it for one of its own.
TEST_F(FleetOnce, NothingMakesItStay) {
  options_.host->runsc = "/usr/bin/runsc";
  open();
  CreateWish wish;
  wish.interpreters = InterpreterWishes{{Language::Python, {}}};
  wish.storage = engine::Storage::Disk;
  asio::cancellation_signal left;
  bool over = false;
  asio::co_spawn(
      context_, fleet_->run_once(me_, wish, line("hang")),
      asio::bind_cancellation_slot(
          left.slot(), [&](const std::exception_ptr&, const Result<OnceView>&) { over = true; }));
  until([&] {
    return !world_.boxes.empty() && world_.boxes.begin()->second.guest &&
           !world_.boxes.begin()->second.guest->hanging.empty();
  });
  settle();
  const std::string id = world_.boxes.begin()->first;
  EXPECT_TRUE(guest(id).processes.empty()) << "an interpreter was started for nobody";
  EXPECT_FALSE(store_.records.contains(id));
  EXPECT_EQ(run(fleet_->pause(me_, id)).error().code, Errc::Busy);
  EXPECT_EQ(run(fleet_->hibernate(me_, id)).error().code, Errc::Busy);
  EXPECT_EQ(run(fleet_->stop_sandbox(me_, id)).error().code, Errc::Busy);
  const auto promoted = run(fleet_->promote(me_, id, {"gvisor", true}));
  ASSERT_FALSE(promoted);
  EXPECT_EQ(promoted.error().code, Errc::Busy);
  EXPECT_NE(promoted.error().message.find("one command"), std::string::npos);
  EXPECT_TRUE(run(fleet_->set_limits(me_, id, {})));
  EXPECT_EQ(store_.records.at(id).state, store::RecordState::Ended);
  EXPECT_TRUE(store_.living()->empty());
  left.emit(asio::cancellation_type::all);
  until([&] { return over && world_.boxes.empty(); });
  EXPECT_TRUE(fleet_->list(me_).empty());
}

}  // namespace
}  // namespace caisson::control::test
