#include "cli/client_users.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "cli/client_json.h"
#include "cli/client_users_import.h"
#include "cli/client_users_source.h"
#include "cli/fake_remote_test.h"

namespace caisson::cli {
namespace {

namespace json = boost::json;
using Texts = std::vector<std::string>;

constexpr const char* kListing = R"({"users": [
  {"tenant": "ada", "name": "Ada \u001b[1m", "email": "ada@example.org", "login": "ada",
   "avatar_url": "", "created_at": "2026-11-15T08:20:23.123456Z", "tokens": 2, "sandboxes": 1},
  {"tenant": "bare", "name": "", "email": "", "login": "", "avatar_url": "", "created_at": null,
   "tokens": 1, "sandboxes": 0}]})";

class UsersTest : public testing::Test {
 protected:
  UsersTest() : UsersTest(std::make_unique<FakeRemote>()) {}
  explicit UsersTest(std::unique_ptr<FakeRemote> remote)
      : fake_(*remote), session_("user", std::move(remote)) {}
  [[nodiscard]] json::value body(std::size_t at) const { return *parse_json(fake_.bodies.at(at)); }

  FakeRemote& fake_;
  Session session_;
};

TEST_F(UsersTest, ATableForPeopleWithoutEscapes) {
  fake_.say(200, kListing);
  const auto text = list_users(session_, false);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("ada@example.org  2       1          2026-11-15T08:20"), std::string::npos)
      << *text;
  EXPECT_EQ(text->find('\x1b'), std::string::npos);
  EXPECT_EQ(*list_users(session_, true), std::string(kListing) + "\n");
}

TEST_F(UsersTest, OneOfAll) {
  fake_.say(200, kListing);
  EXPECT_NE(show_user(session_, "ada", false)->find("tokens     2\n"), std::string::npos);
  EXPECT_EQ(text_at(*parse_json(*show_user(session_, "ada", true)), "email"), "ada@example.org");
  EXPECT_EQ(show_user(session_, "eve", false).error().code, Errc::NotFound);
}

TEST_F(UsersTest, WhoIsThereIsNotAddedAgain) {
  fake_.say(200, kListing);
  EXPECT_EQ(add_user(session_, {.tenant = "ada"}).error().code, Errc::AlreadyExists);
  EXPECT_EQ(fake_.calls, Texts{"GET /api/v1/users"});
}

TEST_F(UsersTest, ATenantWithTokensAloneGetsItsName) {
  fake_.say(200, kListing);
  fake_.say(200, R"({"tenant": "bare"})");
  ASSERT_TRUE(add_user(session_, {.tenant = "bare", .name = "Bo"}));
  EXPECT_EQ(fake_.calls, (Texts{"GET /api/v1/users", "PUT /api/v1/users/bare"}));
  EXPECT_EQ(text_at(body(1), "name"), "Bo");
}

TEST_F(UsersTest, ATokenComesWithTheUser) {
  fake_.say(200, kListing);
  fake_.say(200, R"({"tenant": "a/b"})");
  fake_.say(201, R"({"id": "x", "token": "cais_secret"})");
  const auto added = add_user(session_, {.tenant = "a/b", .new_token = true});
  ASSERT_TRUE(added);
  EXPECT_EQ(text_at(added->token, "token"), "cais_secret");
  EXPECT_EQ(fake_.calls,
            (Texts{"GET /api/v1/users", "PUT /api/v1/users/a%2Fb", "POST /api/v1/tokens"}));
  EXPECT_EQ(text_at(body(2), "tenant"), "a/b");
}

TEST_F(UsersTest, RenamingKeepsTheRest) {
  fake_.say(200, kListing);
  fake_.say(200, R"({"tenant": "ada"})");
  ASSERT_TRUE(rename_user(session_, {.tenant = "ada", .email = "new@example.org"}));
  EXPECT_EQ(text_at(body(1), "email"), "new@example.org");
  EXPECT_EQ(text_at(body(1), "login"), "ada");
  EXPECT_EQ(rename_user(session_, {.tenant = "eve"}).error().code, Errc::NotFound);
}

// ---------------------------------------------------------------------------------- import

ImportSource lines(std::vector<std::string> texts) {
  return [texts = std::move(texts)](const ImportTake& take) -> Result<void> {
    LineReader reader(take);
    for (const std::string& text : texts) TRY(reader.feed(text + "\n"));
    return reader.finish();
  };
}

const std::string kUser =
    R"({"kind":"user","tenant":"u1","id":"U1","email":"u@x","name":"U","login":"u","avatar_url":"","created_at":5})";
const std::string kToken =
    R"({"kind":"token","tenant":"u1","token":"OLDSECRETOLDSECRET","token_id":"t1","description":""})";
const std::string kBox =
    R"({"kind":"sandbox","tenant":"u1","id":"b1","name":"n1","label":"l","image":"i","parent_id":null,"last_active_at":1.5,"deleted_at":null,"delete_reason":null,"is_public":true})";
const std::string kRun =
    R"({"kind":"execution","tenant":"u1","id":"e1","sandbox_id":"b1","command":"true","exit_code":0,"executed_at":1.5,"logs":[{"fd":1,"content":"hi","created_at":2}]})";
const std::string kEnd = R"({"kind":"end","executions_left_out":0,"logs_left_out":0})";

TEST_F(UsersTest, AnImportBringsAllOfIt) {
  fake_.say(200, R"({"users": []})");
  fake_.say(200, R"({"tokens": []})");
  fake_.say(200, "{}");
  fake_.say(201, R"({"id": "t1", "token": ""})");
  fake_.say(200, R"({"sandboxes": 1, "executions": 0})");
  fake_.say(200, R"({"sandboxes": 0, "executions": 1})");
  const auto source = lines({kUser, kToken, kBox, kRun, kEnd});
  const auto plan = plan_import(session_, source);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(describe(*plan).find("OLDSECRET"), std::string::npos);
  EXPECT_NE(describe(*plan).find("1 to take over"), std::string::npos);
  EXPECT_EQ(fake_.calls.size(), 2U) << "a plan changes nothing";
  const auto count = carry_out(session_, *plan, source);
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(describe(*count), "imported: 1 user, 1 token, 1 sandbox, 1 execution\n");
  EXPECT_EQ(fake_.calls, (Texts{"GET /api/v1/users", "GET /api/v1/tokens", "PUT /api/v1/users/u1",
                                "POST /api/v1/tokens", "POST /api/v1/sandboxer/import",
                                "POST /api/v1/sandboxer/import"}));
  EXPECT_EQ(text_at(body(2), "email"), "u@x");
  EXPECT_EQ(
      json::serialize(body(3)),
      R"({"tenant":"u1","label":"taken over from sandboxer","scopes":["read","use","create"],)"
      R"("taken_over":"OLDSECRETOLDSECRET"})");
  EXPECT_EQ(text_at(body(4), "tenant"), "u1");
  EXPECT_EQ(text_at(list_at(body(4), "sandboxes").at(0), "id"), "b1");
  EXPECT_TRUE(list_at(body(4), "executions").empty());
  const json::value run = list_at(body(5), "executions").at(0);
  EXPECT_EQ(text_at(list_at(run, "logs").at(0), "content"), "hi");
  EXPECT_EQ(run.get_object().if_contains("kind"), nullptr);
}

TEST_F(UsersTest, ASecondImportChangesNothing) {
  fake_.say(
      200,
      R"({"users": [{"tenant": "u1", "name": "renamed", "email": "u@x", "created_at": "2026"}]})");
  fake_.say(200, R"({"tokens": [{"id": "t1"}]})");
  fake_.say(200, R"({"sandboxes": 0, "executions": 0})");
  const auto source = lines({kUser, kToken, kBox, kRun, kEnd});
  const auto plan = plan_import(session_, source);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->users_known, 1U);
  EXPECT_EQ(plan->tokens_known, 1U);
  const auto count = carry_out(session_, *plan, source);
  ASSERT_TRUE(count);
  EXPECT_EQ(describe(*count), "nothing has changed: all of it was here already\n");
  for (const std::string& call : fake_.calls)
    EXPECT_TRUE(call.starts_with("GET") || call.ends_with("/sandboxer/import")) << call;
}

TEST_F(UsersTest, AStrangersTenantIsNotGivenAway) {
  for (const char* here :
       {R"({"users": [{"tenant": "u1", "email": "", "created_at": null}]})",
        R"({"users": [{"tenant": "u1", "email": "other@x", "created_at": "2026"}]})"}) {
    fake_.answers.clear();
    fake_.say(200, here);
    fake_.say(200, R"({"tokens": []})");
    const auto plan = plan_import(session_, lines({kUser, kToken, kEnd}));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->strangers, Texts{"u1"});
    EXPECT_NE(describe(*plan).find("conflict"), std::string::npos);
  }
}

TEST_F(UsersTest, WhatBelongsToNobodyOrCannotBeATokenIsLeftOut) {
  fake_.say(200, R"({"users": []})");
  fake_.say(200, R"({"tokens": []})");
  const auto plan = plan_import(
      session_,
      lines({R"({"kind":"token","tenant":"","token":"x","token_id":"t"})",
             R"({"kind":"token","tenant":"u1","token":"","token_id":"","description":"d"})",
             R"({"kind":"sandbox","tenant":"","id":"b"})",
             R"({"kind":"execution","tenant":"","id":"e"})", kEnd}));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->ownerless, 2U);
  EXPECT_EQ(plan->unfit.size(), 1U);
  EXPECT_EQ(plan->executions, 0U);
  EXPECT_TRUE(plan->tokens.empty() && plan->sandboxes.empty());
}

TEST_F(UsersTest, ATokenThatSomebodyBroughtMeanwhileIsNoFailure) {
  fake_.say(200, R"({"users": []})");
  fake_.say(200, R"({"tokens": []})");
  fake_.say(409, R"({"error": {"message": "taken over before"}})");
  const auto source = lines({kToken, kEnd});
  const auto plan = plan_import(session_, source);
  ASSERT_TRUE(plan);
  EXPECT_EQ(carry_out(session_, *plan, source)->tokens, 0U);
}

TEST_F(UsersTest, ARefusalEndsItAndTellsNoToken) {
  fake_.say(200, R"({"users": []})");
  fake_.say(200, R"({"tokens": []})");
  fake_.say(403, R"({"error": {"message": "no"}})");
  const auto source = lines({kToken, kEnd});
  const auto plan = plan_import(session_, source);
  ASSERT_TRUE(plan);
  const auto count = carry_out(session_, *plan, source);
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().message, "a token of u1: no");
}

TEST_F(UsersTest, BatchesStayBelowTheirLimits) {
  fake_.say(200, R"({"users": []})");
  fake_.say(200, R"({"tokens": []})");
  fake_.say(200, R"({"sandboxes": 1, "executions": 1})");
  std::vector<std::string> texts;
  for (std::size_t at = 0; at <= kImportBatchItemsMax; ++at)
    texts.push_back(R"({"kind":"sandbox","tenant":"a","id":"b)" + std::to_string(at) + "\"}");
  texts.push_back(R"({"kind":"sandbox","tenant":"b","id":"c"})");
  const std::string large(kImportBatchBytesMax / 2 + 1000, 'x');
  for (int at = 0; at < 3; ++at)
    texts.push_back(R"({"kind":"execution","tenant":"a","id":"e","command":")" + large + "\"}");
  texts.push_back(kEnd);
  const auto source = lines(texts);
  const auto plan = plan_import(session_, source);
  ASSERT_TRUE(plan);
  ASSERT_TRUE(carry_out(session_, *plan, source));
  // Two of one tenant's many sandboxes, one of the other tenant, one for each large execution.
  EXPECT_EQ(fake_.calls.size(), 2U + 3 + 3);
  for (const std::string& sent : fake_.bodies) EXPECT_LT(sent.size(), 1U << 20U);
  std::vector<std::string> huge = {R"({"kind":"execution","tenant":"a","command":")" +
                                       std::string(kImportBatchBytesMax, 'x') + "\"}",
                                   kEnd};
  fake_.answers.clear();
  fake_.say(200, "{}");
  const auto again = plan_import(session_, lines(huge));
  ASSERT_TRUE(again);
  EXPECT_EQ(carry_out(session_, *again, lines(huge)).error().code, Errc::TooLarge);
}

TEST_F(UsersTest, AReaderThatStopsEarlyIsNotBelieved) {
  fake_.say(200, "{}");
  EXPECT_EQ(plan_import(session_, lines({kUser})).error().code, Errc::Protocol);
  EXPECT_EQ(plan_import(session_, lines({"[]"})).error().code, Errc::Protocol);
  EXPECT_FALSE(plan_import(session_, lines({"{"})));
}

TEST(LineReader, LinesMayComeInPieces) {
  std::vector<std::string> got;
  const ImportTake take = [&](const json::value& value) -> Result<void> {
    got.push_back(json::serialize(value));
    return {};
  };
  LineReader reader(take);
  ASSERT_TRUE(reader.feed(R"({"a":1}
{"b)"));
  ASSERT_TRUE(reader.feed("\":2}\n{}\n"));
  ASSERT_TRUE(reader.finish());
  EXPECT_EQ(got, (Texts{R"({"a":1})", R"({"b":2})", "{}"}));
  ASSERT_TRUE(reader.feed("{"));
  EXPECT_EQ(reader.finish().error().code, Errc::Protocol);
  EXPECT_EQ(reader.feed(std::string(kSourceLineBytesMax, ' ')).error().code, Errc::TooLarge);
}

}  // namespace
}  // namespace caisson::cli
