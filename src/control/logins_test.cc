#include "control/logins.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <set>

#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

namespace asio = boost::asio;

class LoginsTest : public testing::Test {
 protected:
  void SetUp() override { open(false); }
  void open(bool open_mode) {
    logins_.reset();
    access_.reset();
    store_.reset();
    store_ = store::Store::open({.path = dir_.path("db"), .anchor_path = ""}).value();
    AccessClock clock;
    clock.now = [this] { return now_; };
    clock.wall = [this] { return wall_; };
    access_ = Access::make(*store_, open_mode, clock).value();
    logins_ = Logins::make(*access_, [this] { return now_; });
  }
  template <class T>
  T run(awaitable<T> work) {
    auto future = asio::co_spawn(io_, std::move(work), asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }
  Caller caller(std::optional<double> expires = std::nullopt) {
    const Caller admin{.tenant = "default",
                       .actor = "aaaaaaaaaaaa",
                       .scopes = 8,
                       .max_sandboxes = 0,
                       .peer = "",
                       .request_id = ""};
    TokenWish wish{.tenant = "red", .label = "", .scopes = 3, .expires_seconds = expires};
    const auto made = run(access_->create(admin, wish));
    return access_->authenticate(made.value().secret, "192.0.2.1").value();
  }
  Errc refused(std::string_view secret, std::string_view purpose = kConsolePurpose) {
    const auto found = logins_->find(secret, purpose);
    EXPECT_FALSE(found);
    return found ? Errc::Internal : found.error().code;
  }
  void pass(seconds time) {
    now_ += time;
    wall_ += duration_cast<microseconds>(time).count();
  }

  sys::TempDir dir_;
  asio::io_context io_;
  TimePoint now_ = Clock::now();
  store::WallTime wall_ = 1'700'000'000'000'000;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<Logins> logins_;
};

TEST_F(LoginsTest, WhoHasNoSecretIsNobody) {
  const Caller who = caller();
  const std::string secret = logins_->open(who, std::string(kConsolePurpose), kConsoleLife).value();
  EXPECT_EQ(secret.size(), 52U);
  EXPECT_EQ(refused(""), Errc::Unauthenticated);
  EXPECT_EQ(refused(std::string(52, 'a')), Errc::Unauthenticated);
  EXPECT_EQ(refused(secret + "a"), Errc::Unauthenticated);
  EXPECT_EQ(refused(secret.substr(1)), Errc::Unauthenticated);
  const auto found = logins_->find(secret, kConsolePurpose);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tenant, "red");
  EXPECT_EQ(found->actor, who.actor);
  EXPECT_EQ(found->scopes, 3);
  EXPECT_EQ(found->peer, "");
}

TEST_F(LoginsTest, ALoginIsForOnePurpose) {
  const std::string secret = logins_->open(caller(), "one.example", kPreviewLife).value();
  EXPECT_EQ(refused(secret, "two.example"), Errc::Unauthenticated);
  EXPECT_EQ(refused(secret, kConsolePurpose), Errc::Unauthenticated);
  EXPECT_TRUE(logins_->find(secret, "one.example"));
}

TEST_F(LoginsTest, ItEndsInTimeOrWhenItIsClosed) {
  const Caller who = caller();
  const std::string first = logins_->open(who, "console", seconds(60)).value();
  const std::string second = logins_->open(who, "console", seconds(120)).value();
  pass(seconds(60));
  EXPECT_EQ(refused(first), Errc::Unauthenticated);
  EXPECT_EQ(logins_->count(), 1U);
  EXPECT_TRUE(logins_->find(second, "console"));
  logins_->close(second);
  EXPECT_EQ(refused(second), Errc::Unauthenticated);
  EXPECT_EQ(logins_->count(), 0U);
  logins_->close(second);
}

TEST_F(LoginsTest, ATicketIsTakenOnce) {
  const std::string ticket = logins_->open(caller(), "one.example", kTicketLife).value();
  EXPECT_FALSE(logins_->take(ticket, "two.example"));
  EXPECT_TRUE(logins_->take(ticket, "one.example"));
  EXPECT_FALSE(logins_->take(ticket, "one.example"));
  EXPECT_EQ(logins_->count(), 0U);
}

TEST_F(LoginsTest, AWithdrawnTokenEndsItsLogins) {
  const Caller who = caller();
  const std::string secret = logins_->open(who, "console", kConsoleLife).value();
  Caller admin = who;
  admin.scopes = 8;
  ASSERT_TRUE(run(access_->revoke(admin, who.actor)));
  EXPECT_EQ(refused(secret), Errc::Unauthenticated);
  EXPECT_EQ(logins_->count(), 0U);
  EXPECT_EQ(logins_->open(who, "console", kConsoleLife).error().code, Errc::Unauthenticated);
}

TEST_F(LoginsTest, AnExpiredTokenEndsItsLogins) {
  const Caller who = caller(100.0);
  const std::string secret = logins_->open(who, "console", kConsoleLife).value();
  pass(seconds(99));
  EXPECT_TRUE(logins_->find(secret, "console"));
  pass(seconds(1));
  EXPECT_EQ(refused(secret), Errc::Unauthenticated);
}

TEST_F(LoginsTest, APurposeEndsWhole) {
  const Caller who = caller();
  const std::string one = logins_->open(who, "one.example", kPreviewLife).value();
  const std::string again = logins_->open(who, "one.example", kPreviewLife).value();
  const std::string two = logins_->open(who, "two.example", kPreviewLife).value();
  logins_->close_purpose("one.example");
  logins_->close_purpose("none.example");
  EXPECT_EQ(refused(one, "one.example"), Errc::Unauthenticated);
  EXPECT_EQ(refused(again, "one.example"), Errc::Unauthenticated);
  EXPECT_TRUE(logins_->find(two, "two.example"));
}

TEST_F(LoginsTest, ATokenPushesOutItsOwn) {
  const Caller other = caller();
  const std::string others = logins_->open(other, "console", kConsoleLife).value();
  const Caller who = caller();
  const std::string first = logins_->open(who, "console", kConsoleLife).value();
  const std::string second = logins_->open(who, "console", kConsoleLife).value();
  for (std::size_t at = 2; at <= kLoginsPerTokenMax; ++at)
    ASSERT_TRUE(logins_->open(who, "console", kConsoleLife));
  EXPECT_EQ(logins_->count(), kLoginsPerTokenMax + 1);
  EXPECT_EQ(refused(first), Errc::Unauthenticated);
  EXPECT_TRUE(logins_->find(second, "console"));
  EXPECT_TRUE(logins_->find(others, "console"));
}

TEST_F(LoginsTest, WhenAllPlacesAreTakenTheOldestGoes) {
  std::vector<Caller> callers;
  for (std::size_t at = 0; at < kLoginsMax / kLoginsPerTokenMax; ++at) callers.push_back(caller());
  const std::string first = logins_->open(callers[0], "console", kConsoleLife).value();
  for (std::size_t at = 1; at < kLoginsMax; ++at)
    ASSERT_TRUE(logins_->open(callers[at % callers.size()], "console", kConsoleLife));
  EXPECT_EQ(logins_->count(), kLoginsMax);
  EXPECT_TRUE(logins_->find(first, "console"));
  ASSERT_TRUE(logins_->open(caller(), "console", kConsoleLife));
  EXPECT_EQ(logins_->count(), kLoginsMax);
  EXPECT_EQ(refused(first), Errc::Unauthenticated);
  // Those that have ended make room for all.
  pass(kConsoleLife);
  ASSERT_TRUE(logins_->open(callers[1], "console", kConsoleLife));
  EXPECT_EQ(logins_->count(), 1U);
}

TEST_F(LoginsTest, WhatIsNoWishIsRefused) {
  const Caller who = caller();
  EXPECT_EQ(logins_->open(who, "", kTicketLife).error().field, "purpose");
  EXPECT_EQ(logins_->open(who, std::string(257, 'x'), kTicketLife).error().field, "purpose");
  EXPECT_EQ(logins_->open(who, "console", seconds(0)).error().field, "life");
  EXPECT_EQ(logins_->open(who, "console", kConsoleLife + seconds(1)).error().field, "life");
}

TEST_F(LoginsTest, OpenModeHasLoginsToo) {
  open(true);
  const Caller who = access_->authenticate("", "127.0.0.1").value();
  const std::string secret = logins_->open(who, "console", kConsoleLife).value();
  const auto found = logins_->find(secret, "console");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->actor, "open");
  EXPECT_EQ(found->tenant, "default");
  EXPECT_TRUE(found->may(store::Scope::Admin));
}

TEST_F(LoginsTest, NobodyIsOpenWhereTokensAreWanted) {
  Caller who = caller();
  who.actor = "open";
  EXPECT_EQ(logins_->open(who, "console", kConsoleLife).error().code, Errc::Unauthenticated);
}

}  // namespace
}  // namespace caisson::control
