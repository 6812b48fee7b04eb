// A call that is asked twice with one key is done once.
#include "doors/rest/replies.h"

#include <gtest/gtest.h>

#include "doors/rest/fakes_test.h"

namespace caisson::rest {
namespace {

using fake::Ask;
using fake::error_of;
using fake::House;
using fake::sandbox_path;
using http::Method;

Replies::Question question(std::string key, std::string tenant = "t",
                           std::string target = "POST /x") {
  return {std::move(tenant), "actor", std::move(key), std::move(target)};
}

void answer(Replies& replies, const Replies::Question& about, std::string_view body) {
  auto asked = replies.ask(about, TimePoint{});
  ASSERT_TRUE(asked) << asked.error().message;
  ASSERT_TRUE(asked->turn);
  asked->turn->keep(200, body);
  asked->turn->done(7);
}

TEST(Replies, TheSecondAskerGetsTheFirstAnswer) {
  Replies replies;
  answer(replies, question("k"), "one");
  const auto again = replies.ask(question("k"), TimePoint{} + kReplyLife);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->turn);
  EXPECT_EQ(again->reply.status, 200U);
  EXPECT_EQ(again->reply.body, "one");
  EXPECT_EQ(again->reply.asked, 7U);
  EXPECT_TRUE(replies.ask(question("k", "other"), TimePoint{})->turn);
  const auto late = replies.ask(question("k"), TimePoint{} + kReplyLife + seconds(1));
  EXPECT_TRUE(late->turn);
}

TEST(Replies, UnderWayIsBusyAndRefusedIsFree) {
  Replies replies;
  {
    const auto first = replies.ask(question("k"), TimePoint{});
    ASSERT_TRUE(first->turn);
    const auto second = replies.ask(question("k"), TimePoint{} + 2 * kReplyLife);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::Busy);
  }
  EXPECT_TRUE(replies.ask(question("k"), TimePoint{})->turn);
}

TEST(Replies, AKeyIsForOneThing) {
  Replies replies;
  answer(replies, question("k"), "one");
  const auto other = replies.ask(question("k", "t", "POST /y"), TimePoint{});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().field, kKeyField);
  for (const std::string& bad : {std::string("a b"), std::string(kKeyBytesMax + 1, 'a')}) {
    EXPECT_EQ(replies.ask(question(bad), TimePoint{}).error().code, Errc::InvalidArgument);
  }
}

TEST(Replies, TheOldestOfATenantGoes) {
  Replies replies;
  answer(replies, question("first", "other"), "theirs");
  for (std::size_t i = 0; i <= kRepliesPerTenantMax; ++i)
    answer(replies, question(std::to_string(i)), "x");
  EXPECT_TRUE(replies.ask(question("0"), TimePoint{})->turn);
  EXPECT_FALSE(replies.ask(question("2"), TimePoint{})->turn);
  EXPECT_FALSE(replies.ask(question("first", "other"), TimePoint{})->turn);
}

TEST(Replies, TheOldestOfAllGoes) {
  Replies replies;
  for (std::size_t i = 0; i <= kRepliesMax; ++i)
    answer(replies, question(std::to_string(i), "t" + std::to_string(i % 8)), "x");
  EXPECT_TRUE(replies.ask(question("0", "t0"), TimePoint{})->turn);
  EXPECT_FALSE(replies.ask(question("2", "t2"), TimePoint{})->turn);
}

TEST(Replies, AnAnswerThatIsTooLargeIsNotKept) {
  Replies replies;
  answer(replies, question("k"), std::string(kReplyBytesMax + 1, 'x'));
  const auto again = replies.ask(question("k"), TimePoint{});
  EXPECT_FALSE(again->turn);
  EXPECT_EQ(again->reply.status, 0U);
}

TEST(Replies, WhatWasBrokenOffDoesNotBeginAgain) {
  Replies replies;
  {
    auto first = replies.ask(question("k"), TimePoint{});
    ASSERT_TRUE(first->turn);
    first->turn->broken_off(7);
  }
  const auto again = replies.ask(question("k"), TimePoint{});
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->turn);
  EXPECT_TRUE(again->reply.broken_off);
  EXPECT_EQ(again->reply.asked, 7U);
}

Ask keyed(std::string path, std::string body, std::string key, std::string token = "admin") {
  Ask ask{Method::Post, std::move(path), "", std::move(body), std::move(token)};
  ask.fields.push_back({std::string(kKeyField), std::move(key)});
  return ask;
}

TEST(RepliesDoor, ACreateWithAKeyIsDoneOnce) {
  House house;
  const auto first = house.ask(keyed("/api/v1/sandboxes", R"({"name": "a"})", "k-1"));
  EXPECT_EQ(first->code, 201U) << first->body;
  const std::size_t calls = house.fleet.calls.size();
  const auto again = house.ask(keyed("/api/v1/sandboxes", R"({"name": "a"})", "k-1"));
  EXPECT_EQ(again->code, 201U);
  EXPECT_EQ(again->body, first->body);
  EXPECT_EQ(again->field("Idempotency-Replayed"), "true");
  EXPECT_EQ(house.fleet.calls.size(), calls);
  const auto other = house.ask(keyed("/api/v1/sandboxes", R"({"name": "b"})", "k-1"));
  EXPECT_EQ(other->code, 400U);
  EXPECT_EQ(error_of(*other).at("details").at("field"), "Idempotency-Key");
}

TEST(RepliesDoor, ARefusedCallLeavesItsKey) {
  House house;
  house.fleet.fails = Error{Errc::Busy, "not now", 0, {}};
  EXPECT_EQ(house.ask(keyed(sandbox_path("/pause"), "", "k"))->code, 409U);
  house.fleet.fails.reset();
  const auto answer = house.ask(keyed(sandbox_path("/pause"), "", "k"));
  EXPECT_EQ(answer->code, 200U) << answer->body;
  EXPECT_EQ(answer->field("Idempotency-Replayed"), "");
}

TEST(RepliesDoor, ATokenIsNeverKept) {
  EXPECT_FALSE(takes_key("createToken"));
  EXPECT_TRUE(takes_key("createSandbox"));
}

}  // namespace
}  // namespace caisson::rest
