// The whole fleet on one thread, with a launcher, guests and a store that the test plays.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/json/parse.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/own_loop_test.h"
#include "control/fake_engine_test.h"

namespace caisson::control::test {

namespace asio = boost::asio;
namespace json = boost::json;

inline engine::HostFeatures capable_host() {
  engine::HostFeatures host;
  host.kernel = {6, 1};
  host.privileged = true;
  host.landlock_abi = 4;
  host.seccomp_filter = host.user_namespaces = host.overlay = true;
  host.cgroup_v2_root = "/sys/fs/cgroup";
  host.v2_controllers = {"cpu", "memory", "pids"};
  return host;
}

class FleetTest : public testing::Test, protected caisson::test::OwnLoop {
 protected:
  FleetTest() {
    me_.tenant = "red";
    me_.actor = "token1";
    me_.scopes = 7;
    other_.tenant = "blue";
    other_.actor = "token2";
    other_.scopes = 7;
    options_.host = capable_host();
  }
  ~FleetTest() override {
    for (auto& [id, box] : world_.boxes) {
      if (box.guest) box.guest->on_request = nullptr;
    }
    close();
    for (auto& [id, box] : world_.boxes) {
      if (box.guest) box.guest->close();
    }
    settle();
  }

  void open() {
    LauncherOpener opener = [this](engine::LauncherChannel::Watcher watcher)
        -> Result<std::unique_ptr<engine::LauncherChannel>> {
      auto made =
          std::make_unique<FakeLauncher>(context_.get_executor(), world_, std::move(watcher));
      launcher_ = made.get();
      return made;
    };
    auto opened = run(open_fleet(context_.get_executor(), options_, std::move(opener), store_));
    ASSERT_TRUE(opened) << opened.error().message;
    fleet_ = *std::move(opened);
  }
  void close() {
    if (fleet_) fleet_->leave();
    settle();
    fleet_.reset();
  }
  std::string create(CreateWish wish = {}) {
    const auto made = run(fleet_->create(me_, std::move(wish)));
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->id : "";
  }
  FakeGuest& guest(const std::string& id) { return *world_.boxes.at(id).guest; }
  ExecWish line(std::string command) {
    ExecWish wish;
    wish.command = std::move(command);
    return wish;
  }
  Result<json::object> tool(const std::string& id, std::string name, std::string_view arguments) {
    return run(
        fleet_->execute_tool(me_, id, std::move(name), json::parse(arguments).as_object(), {}));
  }

  FakeWorld world_;
  FakeStore store_;
  FleetOptions options_;
  FakeLauncher* launcher_ = nullptr;
  Caller me_;
  Caller other_;
  std::unique_ptr<RunningFleet> fleet_;
};

}  // namespace caisson::control::test
