// Tokens that another system gave out, and who has shown one before.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "control/access.h"
#include "control/access_token.h"
#include "store/digest.h"
#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

namespace asio = boost::asio;

const std::string kOld = "aB3_-9zyxwvutsrqponmlkjihgfedcbaABCDEFGHIJ.";  // 43 characters

const Caller kRoot{.tenant = "default",
                   .actor = "aaaaaaaaaaaa",
                   .scopes = 8,
                   .max_sandboxes = 0,
                   .peer = "",
                   .request_id = "r1"};

TokenWish wish(std::string text, std::string tenant = "red") {
  return {.tenant = std::move(tenant),
          .label = "old",
          .scopes = 7,
          .expires_seconds = std::nullopt,
          .max_sandboxes = 0,
          .taken_over = std::move(text)};
}

class TakenOverTest : public testing::Test {
 protected:
  void SetUp() override { open(false); }
  void open(bool open_mode) {
    access_.reset();
    store_.reset();
    store_ = store::Store::open({.path = dir_.path("db"), .anchor_path = ""}).value();
    AccessClock clock;
    clock.wall = [this] { return wall_; };
    SecretCheck check;
    check.hash = [this](std::string_view text) {
      ++hashes_;
      return store::sha256(text);
    };
    check.equal = [this](const store::Digest& left, const store::Digest& right) {
      ++compares_;
      return store::equal_in_constant_time(left, right);
    };
    access_ = Access::make(*store_, open_mode, clock, check).value();
  }
  template <class T>
  T run(awaitable<T> work) {
    auto future = asio::co_spawn(io_, std::move(work), asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }
  Result<NewToken> create(const TokenWish& what) { return run(access_->create(kRoot, what)); }
  std::string wrong_field(std::string text) {
    const auto made = create(wish(std::move(text)));
    return made ? "accepted" : made.error().field;
  }
  bool works(std::string_view text) {
    return access_->authenticate(text, "192.0.2." + std::to_string(++peers_)).has_value();
  }

  sys::TempDir dir_;
  asio::io_context io_;
  store::WallTime wall_ = 1'700'000'000'000'000;
  int hashes_ = 0;
  int compares_ = 0;
  int peers_ = 0;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Access> access_;
};

TEST_F(TakenOverTest, WhatCouldBeGuessedOrSentByNobodyIsRefused) {
  EXPECT_EQ(wrong_field(std::string(kTakenOverBytesMin - 1, 'a')), "taken_over");
  EXPECT_EQ(wrong_field(std::string(kCredentialBytesMax + 1, 'a')), "taken_over");
  EXPECT_EQ(wrong_field(kOld + " "), "taken_over");
  EXPECT_EQ(wrong_field(kOld + "\n"), "taken_over");
  EXPECT_EQ(wrong_field(kOld + "\x7F"), "taken_over");
  EXPECT_EQ(wrong_field(kOld + "\xC3\xA9"), "taken_over");
  // One of ours is found by its own id, and never as one of another system.
  EXPECT_EQ(wrong_field(make_token(wish("")).value().secret), "taken_over");
  EXPECT_EQ(wrong_field(std::string(kTakenOverBytesMin, 'a')), "accepted");
  EXPECT_EQ(wrong_field(std::string(kCredentialBytesMax, 'a')), "accepted");
}

TEST_F(TakenOverTest, TheOldTextWorksAndNothingNearIt) {
  EXPECT_FALSE(works(kOld));
  const NewToken made = create(wish(kOld)).value();
  EXPECT_EQ(made.secret, "");
  EXPECT_EQ(made.record.id.size(), kTokenIdLength);
  for (int round = 0; round < 2; ++round) {
    const auto caller = access_->authenticate(kOld, "192.0.2.1");
    ASSERT_TRUE(caller) << caller.error().message;
    EXPECT_EQ(caller->tenant, "red");
    EXPECT_EQ(caller->actor, made.record.id);
    EXPECT_EQ(caller->scopes, 7);
    open(false);  // and after a restart
  }
  EXPECT_FALSE(works(kOld + "a"));
  EXPECT_FALSE(works(kOld.substr(1)));
  EXPECT_FALSE(works(made.record.sha256));
  EXPECT_FALSE(works("cais_" + made.record.id + "_" + std::string(52, 'a')));
  // A longer one is not cut to one that is known.
  const std::string longest(kCredentialBytesMax, 'a');
  ASSERT_TRUE(create(wish(longest)));
  EXPECT_TRUE(works(longest));
  EXPECT_FALSE(works(longest + "a"));
}

TEST_F(TakenOverTest, EveryCredentialCostsTheSame) {
  ASSERT_TRUE(create(wish(kOld)));
  const std::string ours = create(wish("")).value().secret;
  for (const std::string& text :
       {kOld, kOld + "x", std::string("short"), std::string(), ours, std::string(9999, 'y')}) {
    hashes_ = 0;
    compares_ = 0;
    (void)works(text);
    EXPECT_EQ(hashes_, 1) << text.substr(0, 60);
    EXPECT_EQ(compares_, 1) << text.substr(0, 60);
  }
}

TEST_F(TakenOverTest, FailuresAreCountedAsForEveryToken) {
  for (int at = 0; at < kFailuresMax; ++at)
    EXPECT_EQ(access_->authenticate(kOld + std::to_string(at), "192.0.2.9").error().code,
              Errc::Unauthenticated);
  EXPECT_EQ(access_->authenticate(kOld, "192.0.2.9").error().code, Errc::Exhausted);
}

TEST_F(TakenOverTest, TwiceIsOnceAndAWithdrawnOneStaysSo) {
  const NewToken made = create(wish(kOld)).value();
  const auto again = create(wish(kOld, "blue"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::AlreadyExists);
  EXPECT_NE(again.error().message.find(made.record.id), std::string::npos);
  EXPECT_EQ(again.error().message.find(kOld), std::string::npos);
  EXPECT_EQ(access_->authenticate(kOld, "192.0.2.1")->tenant, "red");
  ASSERT_TRUE(run(access_->revoke(kRoot, made.record.id)));
  EXPECT_FALSE(works(kOld));
  EXPECT_EQ(create(wish(kOld)).error().code, Errc::AlreadyExists);
  EXPECT_FALSE(works(kOld));
}

TEST_F(TakenOverTest, TwoAtOnceAreOne) {
  auto first = asio::co_spawn(io_, access_->create(kRoot, wish(kOld, "red")), asio::use_future);
  auto second = asio::co_spawn(io_, access_->create(kRoot, wish(kOld, "blue")), asio::use_future);
  io_.restart();
  io_.run();
  EXPECT_TRUE(first.get());
  const auto refused = second.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::AlreadyExists);
  open(false);
  EXPECT_EQ(access_->authenticate(kOld, "192.0.2.1")->tenant, "red");
}

TEST_F(TakenOverTest, TheTextIsKeptNowhere) {
  ASSERT_TRUE(create(wish(kOld)));
  EXPECT_TRUE(works(kOld));
  EXPECT_FALSE(works(kOld + "x"));
  ASSERT_TRUE(store_->flush());
  const auto rows = store_->audit({}).value();
  ASSERT_GE(rows.size(), 2U);
  EXPECT_NE(rows[0].event.detail.find("taken_over"), std::string::npos);
  access_.reset();
  store_.reset();
  for (const auto& file : std::filesystem::directory_iterator(dir_.path("."))) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(bytes.find(kOld), std::string::npos) << file.path();
  }
}

TEST_F(TakenOverTest, ATokenThatWorksMakesItsCaller) {
  TokenWish brief = wish("");
  brief.expires_seconds = 100;
  const NewToken made = create(brief).value();
  const auto caller = access_->caller_of(made.record.id);
  ASSERT_TRUE(caller) << caller.error().message;
  EXPECT_EQ(caller->tenant, "red");
  EXPECT_EQ(caller->actor, made.record.id);
  EXPECT_EQ(caller->scopes, 7);
  EXPECT_TRUE(access_->list(kRoot).at(0).last_used);
  EXPECT_EQ(access_->caller_of("").error().code, Errc::Unauthenticated);
  EXPECT_EQ(access_->caller_of("open").error().code, Errc::Unauthenticated);
  EXPECT_EQ(access_->caller_of("zzzzzzzzzzzz").error().code, Errc::Unauthenticated);
  wall_ += 100'000'000;
  EXPECT_EQ(access_->caller_of(made.record.id).error().code, Errc::Unauthenticated);
  const NewToken other = create(wish("")).value();
  ASSERT_TRUE(run(access_->revoke(kRoot, other.record.id)));
  EXPECT_EQ(access_->caller_of(other.record.id).error().code, Errc::Unauthenticated);
}

TEST_F(TakenOverTest, InOpenModeEverybodyIsEverybody) {
  open(true);
  const auto caller = access_->caller_of("");
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->actor, "open");
  EXPECT_EQ(caller->tenant, "default");
  EXPECT_EQ(access_->caller_of("zzzzzzzzzzzz").error().code, Errc::Unauthenticated);
}

}  // namespace
}  // namespace caisson::control
