#include "control/access.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "control/access_guard.h"
#include "control/access_token.h"
#include "store/digest.h"
#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

namespace asio = boost::asio;
using store::Scope;

constexpr std::uint8_t kAdmin = static_cast<std::uint8_t>(Scope::Admin);
constexpr std::uint8_t kUse = static_cast<std::uint8_t>(Scope::Use);

Caller admin() {
  return {.tenant = "default",
          .actor = "aaaaaaaaaaaa",
          .scopes = kAdmin,
          .max_sandboxes = 0,
          .peer = "127.0.0.1",
          .request_id = "r1"};
}

Caller user() {
  Caller caller = admin();
  caller.scopes = 7;  // everything but admin
  return caller;
}

TokenWish wish(std::uint8_t scopes = kUse) {
  return {.tenant = "default",
          .label = "laptop",
          .scopes = scopes,
          .expires_seconds = std::nullopt,
          .max_sandboxes = 4};
}

class AccessTest : public testing::Test {
 protected:
  void SetUp() override { open(store_options()); }
  [[nodiscard]] store::StoreOptions store_options() const {
    return {.path = dir_.path("db"), .anchor_path = dir_.path("anchors")};
  }
  void open(const store::StoreOptions& options, bool open_mode = false) {
    access_.reset();
    store_.reset();
    store_ = store::Store::open(options).value();
    AccessClock clock;
    clock.now = [this] { return now_; };
    clock.wall = [this] { return wall_; };
    auto made = Access::make(*store_, open_mode, clock);
    ASSERT_TRUE(made) << made.error().message;
    access_ = std::move(*made);
  }
  void pass(seconds time) {
    now_ += time;
    wall_ += duration_cast<microseconds>(time).count();
  }
  template <class T>
  T run(awaitable<T> work) {
    auto future = asio::co_spawn(io_, std::move(work), asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }
  NewToken create(const TokenWish& what = wish()) {
    const Caller caller = admin();
    auto made = run(access_->create(caller, what));
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : NewToken();
  }
  Errc fails(std::string_view credential, std::string_view peer = "192.0.2.1") {
    const auto caller = access_->authenticate(credential, peer);
    EXPECT_FALSE(caller);
    return caller ? Errc::Internal : caller.error().code;
  }
  [[nodiscard]] std::vector<store::AuditRow> rows(const std::string& action) {
    EXPECT_TRUE(store_->flush());
    store::AuditQuery query;
    query.action = action;
    query.limit = store::kPageRowsMax;
    return store_->audit(query).value();
  }

  sys::TempDir dir_;
  asio::io_context io_;
  TimePoint now_ = Clock::now();
  store::WallTime wall_ = 1'700'000'000'000'000;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Access> access_;
};

TEST(TokenText, OnlyTheOneFormIsAToken) {
  const NewToken made = make_token(wish()).value();
  ASSERT_EQ(made.secret.size(), 5U + 12 + 1 + 52);
  const auto parsed = parse_credential(made.secret);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->id, made.record.id);
  EXPECT_EQ(store::to_hex(store::sha256(parsed->secret)), made.record.sha256);
  EXPECT_FALSE(parse_credential(""));
  EXPECT_FALSE(parse_credential("Bearer " + made.secret));
  EXPECT_FALSE(parse_credential(made.secret + "a"));
  EXPECT_FALSE(parse_credential(made.secret.substr(1)));
  for (std::size_t at = 0; at < made.secret.size(); ++at) {
    std::string other = made.secret;
    other[at] = '!';
    EXPECT_FALSE(parse_credential(other)) << at;
  }
}

TEST(TokenText, NoTwoAreAlike) {
  std::set<std::string> ids;
  std::set<std::string> secrets;
  for (int number = 0; number < 200; ++number) {
    const NewToken made = make_token(wish()).value();
    ids.insert(made.record.id);
    secrets.insert(made.secret.substr(18));
  }
  EXPECT_EQ(ids.size(), 200U);
  EXPECT_EQ(secrets.size(), 200U);
}

TEST(TokenText, BadWishesNameTheirField) {
  const auto field = [](auto change) {
    TokenWish one = wish();
    change(one);
    const auto made = make_token(one);
    return made ? std::string("accepted") : made.error().field;
  };
  EXPECT_EQ(field([](TokenWish& one) { one.tenant = ""; }), "tenant");
  EXPECT_EQ(field([](TokenWish& one) { one.tenant = "Äther"; }), "tenant");
  EXPECT_EQ(field([](TokenWish& one) { one.tenant.assign(kTenantBytesMax + 1, 'a'); }), "tenant");
  EXPECT_EQ(field([](TokenWish& one) { one.tenant.assign(kTenantBytesMax, 'a'); }), "accepted");
  EXPECT_EQ(field([](TokenWish& one) { one.label.assign(kTokenLabelBytesMax + 1, 'a'); }), "label");
  EXPECT_EQ(field([](TokenWish& one) { one.label = "a\nb"; }), "label");
  EXPECT_EQ(field([](TokenWish& one) { one.scopes = 0; }), "scopes");
  EXPECT_EQ(field([](TokenWish& one) { one.scopes = 16; }), "scopes");
  EXPECT_EQ(field([](TokenWish& one) { one.expires_seconds = 0; }), "expires_seconds");
  EXPECT_EQ(field([](TokenWish& one) { one.expires_seconds = -1; }), "expires_seconds");
  EXPECT_EQ(field([](TokenWish& one) { one.expires_seconds = kTokenSecondsMax * 2; }),
            "expires_seconds");
  EXPECT_EQ(
      field([](TokenWish& one) { one.expires_seconds = std::numeric_limits<double>::quiet_NaN(); }),
      "expires_seconds");
  EXPECT_EQ(field([](TokenWish& one) { one.max_sandboxes = -1; }), "max_sandboxes");
  EXPECT_EQ(field([](TokenWish& one) { one.max_sandboxes = kTokenSandboxesMax + 1; }),
            "max_sandboxes");
}

TEST(TokenText, Scopes) {
  EXPECT_EQ(parse_scopes("admin").value(), 8);
  EXPECT_EQ(parse_scopes("read, use,create,use").value(), 7);
  EXPECT_EQ(scopes_text(15), "admin,create,use,read");
  EXPECT_EQ(scopes_text(0), "");
  for (const char* bad : {"", "root", "admin,", "Admin", "read use"})
    EXPECT_EQ(parse_scopes(bad).error().field, "scopes") << bad;
}

TEST_F(AccessTest, WrongTokensAreStrangers) {
  const NewToken good = create();
  const NewToken other = create();
  EXPECT_EQ(fails(""), Errc::Unauthenticated);
  EXPECT_EQ(fails("password"), Errc::Unauthenticated);
  EXPECT_EQ(fails(std::string(100'000, 'x')), Errc::Unauthenticated);
  EXPECT_EQ(fails(make_token(wish()).value().secret), Errc::Unauthenticated);
  // The id of one with the secret of another; the hash from the database instead of the secret.
  EXPECT_EQ(fails(good.secret.substr(0, 18) + other.secret.substr(18)), Errc::Unauthenticated);
  EXPECT_EQ(fails("cais_" + good.record.id + "_" + good.record.sha256), Errc::Unauthenticated);
  // An unknown id and a wrong secret are told in the same words.
  EXPECT_EQ(access_->authenticate(make_token(wish()).value().secret, "a").error().message,
            access_->authenticate(good.secret.substr(0, 18) + other.secret.substr(18), "a")
                .error()
                .message);
  EXPECT_EQ(access_->failures(), 8U);
}

TEST_F(AccessTest, AGoodTokenIsItsTenant) {
  EXPECT_TRUE(access_->empty());
  TokenWish other = wish();
  other.tenant = "other";
  const NewToken made = create(other);
  EXPECT_FALSE(access_->empty());
  for (int round = 0; round < 2; ++round) {
    const auto caller = access_->authenticate(made.secret, "192.0.2.1");
    ASSERT_TRUE(caller) << caller.error().message;
    EXPECT_EQ(caller->tenant, "other");
    EXPECT_EQ(caller->actor, made.record.id);
    EXPECT_EQ(caller->max_sandboxes, 4);
    EXPECT_EQ(caller->peer, "192.0.2.1");
    EXPECT_TRUE(caller->may(Scope::Use));
    EXPECT_FALSE(caller->may(Scope::Create));
    EXPECT_FALSE(caller->may(Scope::Admin));
    open(store_options());  // and after a restart
  }
}

TEST_F(AccessTest, TokensExpire) {
  TokenWish brief = wish();
  brief.expires_seconds = 100;
  const NewToken made = create(brief);
  pass(seconds(99));
  EXPECT_TRUE(access_->authenticate(made.secret, "192.0.2.1"));
  pass(seconds(1));
  EXPECT_EQ(fails(made.secret), Errc::Unauthenticated);
  open(store_options());
  EXPECT_EQ(fails(made.secret), Errc::Unauthenticated);
  const auto denied = rows("login");
  EXPECT_EQ(denied.back().event.tenant, "default");
  EXPECT_NE(denied.back().event.detail.find("expired"), std::string::npos);
}

TEST_F(AccessTest, TokensAreWithdrawn) {
  const NewToken made = create();
  const Caller caller = admin();
  EXPECT_TRUE(run(access_->revoke(caller, made.record.id)));
  EXPECT_EQ(fails(made.secret), Errc::Unauthenticated);
  EXPECT_TRUE(run(access_->revoke(caller, made.record.id))) << "again is no failure";
  EXPECT_EQ(run(access_->revoke(caller, "zzzzzzzzzzzz")).error().code, Errc::NotFound);
  EXPECT_EQ(rows("token.revoke").size(), 1U);
  open(store_options());
  EXPECT_EQ(fails(made.secret), Errc::Unauthenticated);
}

TEST_F(AccessTest, AWithdrawnTokenTakesItsCallsWithIt) {
  const NewToken token = create();
  const NewToken other = create();
  Caller mine = *access_->authenticate(token.secret, "192.0.2.1");
  mine.request_id = "r7";
  const Caller theirs = *access_->authenticate(other.secret, "192.0.2.1");
  int cut = 0;
  int spared = 0;
  auto call = access_->watch(mine, io_.get_executor(), [&] { ++cut; });
  auto second = access_->watch(mine, io_.get_executor(), [&] { ++cut; });
  auto over = access_->watch(mine, io_.get_executor(), [&] { ++spared; });
  over.reset();  // a call that has ended is not cut
  auto neighbour = access_->watch(theirs, io_.get_executor(), [&] { ++spared; });
  ASSERT_TRUE(call && neighbour);
  const Caller boss = admin();
  ASSERT_TRUE(run(access_->revoke(boss, token.record.id)));
  EXPECT_EQ(cut, 2);
  ASSERT_TRUE(run(access_->revoke(boss, token.record.id)));
  EXPECT_EQ(cut, 2) << "once each";
  EXPECT_EQ(spared, 0);
  access_.reset();  // what outlives it does no harm
}

TEST_F(AccessTest, WhoWithdrawsHisOwnTokenHearsOfIt) {
  const NewToken token = create(wish(kAdmin));
  Caller me = *access_->authenticate(token.secret, "192.0.2.1");
  me.request_id = "r1";
  int cut = 0;
  const auto call = access_->watch(me, io_.get_executor(), [&] { ++cut; });
  ASSERT_TRUE(run(access_->revoke(me, token.record.id)));
  EXPECT_EQ(cut, 0);
}

TEST_F(AccessTest, AnExpiredTokenTakesItsCallsWithIt) {
  TokenWish shortly = wish();
  shortly.expires_seconds = 60;
  const NewToken token = create(shortly);
  const Caller mine = *access_->authenticate(token.secret, "192.0.2.1");
  wall_ = *token.record.expires - 1000;  // a millisecond is left
  int cut = 0;
  const auto call = access_->watch(mine, io_.get_executor(), [&] { ++cut; });
  io_.restart();
  io_.run();
  EXPECT_EQ(cut, 1);
}

TEST_F(AccessTest, WhatATokenMayNotDoIsRecordedAndCannotFillTheDisk) {
  const NewToken token = create();
  Caller mine = *access_->authenticate(token.secret, "192.0.2.1");
  mine.request_id = "r9";
  for (int i = 0; i < 1000; ++i) access_->denied(mine, "POST /api/v1/tokens");
  auto told = rows("denied");
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].event.actor, token.record.id);
  EXPECT_EQ(told[0].event.object, "POST /api/v1/tokens");
  EXPECT_EQ(told[0].event.outcome, store::Outcome::Denied);
  pass(seconds(2));
  (void)access_->authenticate(token.secret, "192.0.2.1");
  told = rows("denied");
  ASSERT_EQ(told.size(), 2U);
  EXPECT_NE(told[1].event.detail.find("999"), std::string::npos) << told[1].event.detail;
}

TEST_F(AccessTest, ALoginThatCannotBeWrittenIsRefused) {
  const NewToken first = create();
  const NewToken second = create();
  auto full = store_options();
  full.reserve_bytes = std::numeric_limits<std::int64_t>::max() / 2;
  open(full);
  // Nobody knew before its row failed; from then on it is known, for this token and every other.
  (void)access_->authenticate(first.secret, "192.0.2.1");
  (void)store_->flush();
  EXPECT_EQ(fails(first.secret), Errc::StoreFull);
  EXPECT_EQ(fails(second.secret), Errc::StoreFull);
  EXPECT_GE(store_->counters().unwritten, 1U);
  open(store_options());
  EXPECT_TRUE(access_->authenticate(first.secret, "192.0.2.1"));
  EXPECT_TRUE(access_->authenticate(second.secret, "192.0.2.1"));
}

TEST_F(AccessTest, OnlyAdminsManage) {
  const NewToken made = create();
  const Caller caller = user();
  EXPECT_EQ(run(access_->create(caller, wish())).error().code, Errc::Denied);
  EXPECT_EQ(run(access_->revoke(caller, made.record.id)).error().code, Errc::Denied);
  EXPECT_TRUE(access_->list(caller).empty());
  EXPECT_TRUE(access_->authenticate(made.secret, "192.0.2.1"));
  EXPECT_EQ(rows("token.create").back().event.outcome, store::Outcome::Denied);
  EXPECT_EQ(rows("token.revoke").back().event.outcome, store::Outcome::Denied);
  const auto list = access_->list(admin());
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].id, made.record.id);
  EXPECT_EQ(list[0].sha256, "");
  EXPECT_EQ(rows("token.create")[0].event.object, made.record.id);
  EXPECT_EQ(rows("token.create")[0].event.actor, "aaaaaaaaaaaa");
}

TEST_F(AccessTest, WhatTheStoreRefusesDoesNotExist) {
  const NewToken made = create();
  store::StoreOptions full = store_options();
  full.reserve_bytes = std::numeric_limits<std::int64_t>::max();
  open(full);
  const Caller caller = admin();
  EXPECT_EQ(run(access_->create(caller, wish())).error().code, Errc::StoreFull);
  EXPECT_EQ(access_->list(caller).size(), 1U);
  // A withdrawal holds at once; the caller hears that it is not durable and may try again.
  EXPECT_EQ(run(access_->revoke(caller, made.record.id)).error().code, Errc::StoreFull);
  EXPECT_EQ(fails(made.secret), Errc::Unauthenticated);
  EXPECT_EQ(run(access_->revoke(caller, made.record.id)).error().code, Errc::StoreFull);
}

TEST_F(AccessTest, OpenModeAsksNobody) {
  open(store_options(), true);
  const auto caller = access_->authenticate("", "127.0.0.1").value();
  EXPECT_EQ(caller.tenant, "default");
  EXPECT_EQ(caller.actor, "open");
  for (const Scope scope : {Scope::Read, Scope::Use, Scope::Create, Scope::Admin})
    EXPECT_TRUE(caller.may(scope));
  EXPECT_TRUE(access_->authenticate("anything", "127.0.0.1"));
}

TEST_F(AccessTest, APeerThatFailsIsBlocked) {
  const NewToken made = create();
  for (int number = 0; number < kFailuresMax; ++number)
    EXPECT_EQ(fails("wrong"), Errc::Unauthenticated) << number;
  EXPECT_EQ(fails("wrong"), Errc::Exhausted);
  // Who shares the address with the guesser and has a good token is not shut out by him, and the
  // guesser gains nothing from it: no other answer than before.
  EXPECT_TRUE(access_->authenticate(made.secret, "192.0.2.1"));
  EXPECT_EQ(fails("wrong"), Errc::Exhausted);
  EXPECT_EQ(fails(""), Errc::Unauthenticated) << "guesses nothing";
  EXPECT_TRUE(access_->authenticate(made.secret, "192.0.2.2")) << "another peer";
  const Caller caller = admin();
  ASSERT_TRUE(run(access_->revoke(caller, made.record.id)));
  EXPECT_EQ(fails(made.secret), Errc::Exhausted) << "a withdrawn one is a failure like any other";
  pass(seconds(60));
  EXPECT_EQ(fails(made.secret), Errc::Unauthenticated);
}

TEST_F(AccessTest, ACallWithoutATokenGuessesNothing) {
  const NewToken made = create();
  for (int number = 0; number < 10 * kFailuresMax; ++number)
    EXPECT_EQ(fails(""), Errc::Unauthenticated);
  EXPECT_TRUE(access_->authenticate(made.secret, "192.0.2.1"));
}

// No clock: the time cannot tell how close a guess was, because every one goes the same way. One
// hash of what was sent, one comparison of two whole hashes, and only then a decision.
TEST_F(AccessTest, EveryGuessTakesTheSameWay) {
  const NewToken good = create();
  const NewToken withdrawn = create();
  const Caller caller = admin();
  ASSERT_TRUE(run(access_->revoke(caller, withdrawn.record.id)));
  const std::string stranger = make_token(wish()).value().secret;
  int hashed = 0;
  int compared = 0;
  SecretCheck counting;
  counting.hash = [&](std::string_view text) {
    ++hashed;
    return store::sha256(text);
  };
  counting.equal = [&](const store::Digest& left, const store::Digest& right) {
    ++compared;
    return store::equal_in_constant_time(left, right);
  };
  const auto access = Access::make(*store_, false, {}, counting).value();
  std::string near = good.secret;
  near.back() = near.back() == 'a' ? 'q' : 'a';
  std::string far = good.secret;
  far[18] = far[18] == 'a' ? 'b' : 'a';
  int asked = 0;
  for (const std::string& one : {good.secret, near, far, withdrawn.secret, stranger,
                                 std::string("no token"), std::string(), good.secret + "x"}) {
    (void)access->authenticate(one, "192.0.2." + std::to_string(++asked));
    EXPECT_EQ(hashed, asked) << one;
    EXPECT_EQ(compared, asked) << one;
  }
}

TEST(Secrets, TheComparisonLooksAtEveryBit) {
  const store::Digest digest = store::sha256("x");
  for (std::size_t bit = 0; bit < 8 * digest.size(); ++bit) {
    store::Digest other = digest;
    other[bit / 8] = static_cast<std::uint8_t>(other[bit / 8] ^ (1U << (bit % 8)));
    EXPECT_FALSE(store::equal_in_constant_time(digest, other)) << bit;
  }
  EXPECT_TRUE(store::equal_in_constant_time(digest, store::sha256("x")));
}

// A thousand bad tokens: recorded, but not a thousand rows.
TEST_F(AccessTest, AnAttackerCannotFillTheDisk) {
  const std::string guess = make_token(wish()).value().secret;
  for (int number = 0; number < 1000; ++number) (void)fails(guess);
  auto denied = rows("login");
  ASSERT_EQ(denied.size(), 1U);
  EXPECT_EQ(denied[0].event.object, "192.0.2.1");
  EXPECT_EQ(denied[0].event.outcome, store::Outcome::Denied);
  EXPECT_EQ(denied[0].event.tenant, "");
  EXPECT_NE(denied[0].event.detail.find(guess.substr(5, 12)), std::string::npos);
  EXPECT_EQ(denied[0].event.detail.find(guess.substr(18)), std::string::npos) << "the secret";
  // The others are told when somebody comes by later, with their number.
  pass(seconds(61));
  (void)fails("", "192.0.2.2");
  denied = rows("login");
  ASSERT_EQ(denied.size(), 3U);
  EXPECT_NE(denied[1].event.detail.find("\"failures_before\":999"), std::string::npos)
      << denied[1].event.detail;
  EXPECT_EQ(access_->failures(), 1001U);
}

TEST_F(AccessTest, ManyPeersCannotFillItEither) {
  for (int number = 0; number < 3 * static_cast<int>(kPeersMax); ++number)
    (void)fails("wrong",
                "10.0." + std::to_string(number / 250) + "." + std::to_string(number % 250));
  EXPECT_EQ(rows("login").size(), static_cast<std::size_t>(kLoginRowsMax));
  access_.reset();  // the rest as one sum
  EXPECT_EQ(rows("login").size(), static_cast<std::size_t>(kLoginRowsMax) + 1);
  EXPECT_NE(rows("login").back().event.detail.find(
                std::to_string(3 * static_cast<int>(kPeersMax) - kLoginRowsMax)),
            std::string::npos);
}

TEST(AccessGuardTest, MemoryIsBounded) {
  AccessGuard guard;
  const TimePoint now = Clock::now();
  for (std::size_t number = 0; number < kPeersMax + 10; ++number) {
    (void)guard.failed("peer" + std::to_string(number), {.reason = "x", .token = "", .tenant = ""},
                       Guess::Counts, now);
  }
  EXPECT_EQ(guard.peers(), kPeersMax);
}

TEST(AccessGuardTest, OneMachineIsOnePeer) {
  EXPECT_EQ(peer_key("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(peer_key("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(peer_key("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(peer_key("2001:db8:1:2:ffff::1"), "2001:db8:1:2::/64");
  EXPECT_EQ(peer_key("unix"), "unix");
  EXPECT_EQ(peer_key(std::string(1000, 'x')).size(), 64U);
}

TEST_F(AccessTest, LastUseIsKeptToTheMinute) {
  const NewToken made = create();
  const auto last_used = [&] {
    EXPECT_TRUE(store_->flush());
    return store_->tokens().value()[0].last_used;
  };
  EXPECT_EQ(last_used(), std::nullopt);
  for (int number = 0; number < 100; ++number)
    EXPECT_TRUE(access_->authenticate(made.secret, "192.0.2.1"));
  const store::WallTime minute = wall_ / 60'000'000 * 60'000'000;
  EXPECT_EQ(last_used(), minute);
  EXPECT_EQ(rows("login").size(), 1U) << "one login, not a hundred";
  EXPECT_EQ(rows("login")[0].event.outcome, store::Outcome::Allowed);
  pass(seconds(60));
  EXPECT_TRUE(access_->authenticate(made.secret, "192.0.2.1"));
  EXPECT_EQ(last_used(), minute + 60'000'000);
  EXPECT_EQ(rows("login").size(), 1U) << "the same session";
  pass(seconds(2 * 3600));
  EXPECT_TRUE(access_->authenticate(made.secret, "192.0.2.1"));
  EXPECT_EQ(rows("login").size(), 2U);
}

// The oldest token that works no more makes room; one that works never does.
TEST_F(AccessTest, TokensAreBounded) {
  store::Store::Batch batch;
  std::string dead;
  batch.tokens.reserve(kTokensMax);
  for (std::size_t number = 0; number < kTokensMax; ++number) {
    batch.tokens.push_back(make_token_at(wish(), wall_ + static_cast<int>(number)).value().record);
    if (number == 5) {
      batch.tokens.back().revoked = wall_;
      dead = batch.tokens.back().id;
    }
  }
  store_->write(batch, [](const Result<void>& result) { EXPECT_TRUE(result); });
  ASSERT_TRUE(store_->flush());
  open(store_options());
  const NewToken made = create();
  EXPECT_EQ(store_->tokens().value().size(), kTokensMax);
  const Caller caller = admin();
  EXPECT_EQ(run(access_->revoke(caller, dead)).error().code, Errc::NotFound);
  EXPECT_EQ(run(access_->create(caller, wish())).error().code, Errc::Exhausted);
  EXPECT_TRUE(access_->authenticate(made.secret, "192.0.2.1"));
}

// Every byte that is on the disk, and no part of a secret among them.
TEST_F(AccessTest, TheDiskHoldsNoSecret) {
  std::vector<NewToken> made;
  made.reserve(5);
  for (int number = 0; number < 5; ++number) made.push_back(create());
  for (const NewToken& token : made) {
    EXPECT_TRUE(access_->authenticate(token.secret, "192.0.2.1"));
    (void)fails(token.secret + "x", "192.0.2.9");
  }
  ASSERT_TRUE(store_->flush());
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    const std::string bytes = dir_.read(entry.path().filename().string());
    ++files;
    for (const NewToken& token : made)
      EXPECT_EQ(bytes.find(token.secret.substr(18, 16)), std::string::npos) << entry.path();
  }
  EXPECT_GE(files, 4U);
  EXPECT_NE((dir_.read("db-wal") + dir_.read("db")).find(made[0].record.sha256), std::string::npos)
      << "the search sees what is there";
}

}  // namespace
}  // namespace caisson::control
