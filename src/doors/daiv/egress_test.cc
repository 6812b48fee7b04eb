// The egress policy, and sessions that nobody came back to.
#include "doors/daiv/egress.h"

#include <gtest/gtest.h>

#include "doors/daiv/fakes_test.h"

namespace caisson::daiv {
namespace {

using fake::House;
using fake::kId;
using fake::kOtherId;
using http::Method;

// "field: message" of each complaint about a policy, or the rules.
std::string judged(std::string_view text) {
  boost::json::value value = boost::json::parse(text);
  SecretValues secrets = hide_secrets(&value);
  Problems problems;
  const Egress egress =
      read_egress(value, std::move(secrets), boost::json::array{"body"}, problems);
  if (!problems.empty()) {
    std::string out;
    for (const auto& one : boost::json::parse(problems.body()).at("detail").as_array()) {
      for (const auto& part : one.at("loc").as_array())
        out += (part.is_string() ? std::string(part.as_string())
                                 : std::to_string(part.to_number<int>())) +
               ".";
      out += " " + std::string(one.at("type").as_string()) + "; ";
    }
    return out;
  }
  std::string out;
  for (const auto& rule : egress.rules) {
    out += rule.domain;
    for (const auto& method : rule.methods) out += " " + method;
    if (rule.inspect) out += " inspect";
    if (rule.otherwise) out += " otherwise";
    for (const auto& one : rule.inject)
      out += " " + one.header + "=" + egress.secrets.at(one.secret);
    out += "; ";
  }
  return out;
}

TEST(DaivEgress, BecomesRules) {
  EXPECT_EQ(
      judged(
          R"({"policy":{"rules":[{"host":"*.GitHub.com","methods":["get","*"]},{"host":"a.b"}]}})"),
      "*.github.com inspect; a.b inspect; ");
  EXPECT_EQ(
      judged(
          R"({"policy":{"intercept":"credentialed","rules":[{"host":"a.b"},{"host":"c.d","methods":["get","Post"]}]}})"),
      "a.b; c.d GET POST inspect; ");
  EXPECT_EQ(
      judged(R"({"policy":{"intercept":"credentialed","rules":[{"host":"a.b","inject":"gh"}]},)"
             R"("secrets":{"gh":{"header":"Authorization","value":"Bearer x"}}})"),
      "a.b Authorization=Bearer x; ");
  EXPECT_EQ(judged(R"({"policy":{"default":"allow","intercept":"credentialed"}})"),
            "* otherwise; ");
  EXPECT_EQ(judged(R"({"policy":{"default":"allow","rules":[{"host":"a.b","inject":null}]}})"),
            "a.b inspect; * inspect otherwise; ");
  EXPECT_EQ(judged(R"({"policy":{"default":"allow","intercept":"credentialed",)"
                   R"("rules":[{"host":"a.b","methods":["get"]}]}})"),
            "a.b GET inspect; * otherwise; ");
  EXPECT_EQ(judged(R"({"policy":{"rules":[{"host":"*","inject":"gh"}]},)"
                   R"("secrets":{"gh":{"header":"X-Key","value":"x"}}})"),
            "* inspect X-Key=x; ");
}

TEST(DaivEgress, RefusesWhatIsWrongOrCannotBeEnforced) {
  EXPECT_EQ(judged("{}"), "body.policy. missing; ");
  EXPECT_EQ(judged(R"({"policy":{}})"), "body.policy. value_error; ");
  EXPECT_EQ(judged(R"({"policy":{"default":"x","intercept":"y","rules":[{"host":"a.b"}]}})"),
            "body.policy.default. literal_error; body.policy.intercept. literal_error; ");
  EXPECT_EQ(judged(R"({"policy":{"rules":5}})"), "body.policy.rules. list_type; ");
  for (const std::string host :
       {"", "a b", "a\\nb", "api-*.x.com", "a?.b", "[ab].c", "127.0.0.1", "a..b"})
    EXPECT_EQ(judged(R"({"policy":{"rules":[{"host":")" + host + "\"}]}}"),
              "body.policy.rules.0.host. value_error; ")
        << host;
  EXPECT_EQ(judged(R"({"policy":{"rules":[{}]}})"), "body.policy.rules.0.host. missing; ");
  EXPECT_EQ(judged(R"({"policy":{"rules":[{"host":"a.b","methods":[]}]}})"),
            "body.policy.rules.0.methods. value_error; ");
  EXPECT_EQ(judged(R"({"policy":{"rules":[{"host":"a.b","inject":"gh"}]}})"),
            "body. value_error; ");
  const std::string rule = R"({"policy":{"rules":[{"host":"a.b"}]},"secrets":)";
  EXPECT_EQ(judged(rule + "5}"), "body.secrets. dict_type; ");
  EXPECT_EQ(judged(rule + R"({"s":{"header":"a b","value":"x"}}})"),
            "body.secrets.s.header. value_error; ");
  EXPECT_EQ(judged(rule + R"({"s":{"value":"x"}}})"), "body.secrets.s.header. missing; ");
  EXPECT_EQ(judged(rule + R"({"s":{"header":"a"}}})"), "body.secrets.s.value. missing; ");
  EXPECT_EQ(judged(rule + R"({"s":{"header":"a","value":"x\r\ny"}}})"),
            "body.secrets.s.value. value_error; ");
  EXPECT_EQ(judged(rule + R"({"s":{"header":"a","value":""}}})"),
            "body.secrets.s.value. value_error; ");
}

constexpr std::string_view kEgress =
    R"({"policy":{"rules":[{"host":"a.b","inject":"gh"}]},"secrets":{"gh":{"header":"X-Key","value":"hush"}}})";

TEST(DaivEgress, ASecretIsNeverShown) {
  House house;
  for (
      const std::string& body :
      {R"({"egress":)" + std::string(kEgress) + "}",
       std::string(
           R"({"base_image":"alpine","egress":{"policy":{},"secrets":{"gh":{"header":"X","value":"hush"}}}})"),
       std::string(
           R"({"base_image":"alpine","egress":{"policy":{"default":"allow"},"secrets":{"gh":{"value":"hush\n"}}}})")}) {
    const auto answer = house.ask({Method::Post, "/session/", body});
    EXPECT_EQ(answer->code, 422U);
    EXPECT_EQ(answer->body.find("hush"), std::string::npos) << answer->body;
  }
}

TEST(DaivEgress, AStartKeepsSecretsUnderNamesOfItsOwn) {
  House house;
  const std::string body =
      R"({"base_image":"alpine","network_enabled":true,"egress":)" + std::string(kEgress) + "}";
  EXPECT_EQ(house.ask({Method::Post, "/session/", body})->code, 200U);
  ASSERT_EQ(house.fleet.secrets.size(), 1U);
  const auto& [name, value] = *house.fleet.secrets.begin();
  EXPECT_EQ(value, "hush");
  const auto& rules = *house.fleet.created.network.rules;
  ASSERT_EQ(rules.size(), 1U) << "the block wins over network_enabled";
  EXPECT_EQ(rules[0].inject.at(0), (policy::HeaderInjection{"X-Key", name, ""}));
  EXPECT_EQ(house.fleet.created.network.own_secrets, std::vector{name}) << "and no others";
  EXPECT_TRUE(house.fleet.created.network.authority_for_every_name);
  EXPECT_TRUE(name.starts_with(house.fleet.created.labels.at(std::string(kEgressLabel))));
  EXPECT_EQ(house.ask({Method::Delete, "/session/" + kOtherId + "/", "", "force=true"})->code,
            204U);
  EXPECT_TRUE(house.fleet.secrets.empty());
}

// A policy's secret makes nobody an administrator, and without a policy there is no authority.
TEST(DaivEgress, NobodyIsRaised) {
  House house;
  const std::string body = R"({"base_image":"alpine","egress":)" + std::string(kEgress) + "}";
  EXPECT_EQ(house.ask({Method::Post, "/session/", body, "", "red/create"})->code, 200U);
  EXPECT_FALSE(house.fleet.creator.may(store::Scope::Admin));
  const std::string open = R"({"base_image":"alpine","network_enabled":true})";
  EXPECT_EQ(house.ask({Method::Post, "/session/", open})->code, 200U);
  EXPECT_FALSE(house.fleet.created.network.authority_for_every_name);
  EXPECT_TRUE(house.fleet.created.network.own_secrets.empty());
}

TEST(DaivEgress, AFailedStartLeavesNothing) {
  House house;
  const std::string body = R"({"base_image":"alpine","egress":)" + std::string(kEgress) + "}";
  house.fleet.fails["create"] =
      Error{Errc::Unsupported, "network.rules[0]: no", 0, "network.rules[0].domain"};
  EXPECT_EQ(house.ask({Method::Post, "/session/", body})->code, 422U);
  EXPECT_TRUE(house.fleet.secrets.empty());
  house.fleet.fails.clear();
  house.fleet.fails["put_secret"] = Error{Errc::Unsupported, "keeps none", 0, {}};
  const auto none = house.ask({Method::Post, "/session/", body});
  EXPECT_EQ(none->code, 400U);
  EXPECT_EQ(
      none->body,
      R"({"detail":"egress requires the egress proxy, which is not configured on this deployment"})");
}

TEST(DaivEgress, PutReplacesRulesAndSecrets) {
  House house;
  const auto put = [&] {
    return house.ask({Method::Put, "/session/" + kId + "/egress/", std::string(kEgress)});
  };
  const auto none = put();
  EXPECT_EQ(none->code, 409U);
  EXPECT_EQ(none->body, R"({"detail":"Session has no egress proxy; nothing to refresh"})");
  house.fleet.boxes[kId].labels[std::string(kEgressLabel)] = "old";
  house.fleet.secrets["old-0"] = "x";
  house.fleet.secrets["operators"] = "y";
  EXPECT_EQ(put()->code, 204U);
  EXPECT_EQ(house.fleet.secrets.size(), 3U);
  EXPECT_TRUE(house.fleet.secrets.contains("old-0")) << "anybody can write a label";
  EXPECT_TRUE(house.fleet.secrets.contains("operators"));
  const std::string first = house.fleet.boxes[kId].labels.at(std::string(kEgressLabel));
  EXPECT_EQ(put()->code, 204U);
  EXPECT_EQ(house.fleet.secrets.size(), 3U);
  EXPECT_FALSE(house.fleet.secrets.contains(first + "-0"));
  const std::string kept = house.fleet.boxes[kId].labels.at(std::string(kEgressLabel));
  EXPECT_TRUE(house.fleet.network.rules->at(0).inject.at(0).secret.starts_with(kept));
  EXPECT_EQ(house.fleet.network.own_secrets, std::vector{kept + "-0"});
  house.fleet.fails["network"] = Error{Errc::Unsupported, "trusts nobody for that", 0, {}};
  EXPECT_EQ(put()->code, 422U);
  EXPECT_EQ(house.fleet.boxes[kId].labels.at(std::string(kEgressLabel)), kept)
      << "the old ones hold";
  EXPECT_EQ(house.fleet.secrets.size(), 3U);
  house.fleet.fails["network"] = Error{Errc::Internal, "x", 0, {}};
  EXPECT_EQ(put()->body, R"({"detail":"Egress proxy: failed to refresh policy into the sidecar"})");
  house.fleet.boxes.clear();
  EXPECT_EQ(put()->body, R"({"detail":"Session not found"})");
}

// ------------------------------------------------------------------------------------ reaper

class DaivReaper : public testing::Test {
 protected:
  void stopped(const std::string& id, std::int64_t seconds_ago) {
    auto& view = house.fleet.add(id);
    view.state = control::State::Stopped;
    view.labels[std::string(kStoppedLabel)] = std::to_string(house.wall / 1'000'000 - seconds_ago);
  }
  bool there(const std::string& id) { return house.fleet.boxes.contains(id); }
  House house;
};

TEST_F(DaivReaper, RemovesWhatWasStoppedLongAgo) {
  stopped("young", 43199);
  stopped("old", 43200);
  auto& foreign = house.fleet.add("foreign");
  foreign.labels.clear();
  foreign.state = control::State::Stopped;
  house.sweep();
  EXPECT_TRUE(there("young") && there("foreign") && there(kId));
  EXPECT_FALSE(there("old"));
}

TEST_F(DaivReaper, KeepsSoManyStopped) {
  house.options.max_stopped = 2;
  for (int i = 0; i < 5; ++i) stopped("s" + std::to_string(i), 10 * i);
  house.sweep();
  EXPECT_TRUE(there("s0") && there("s1"));
  EXPECT_FALSE(there("s2") || there("s3") || there("s4"));
  House none;
  none.options.max_stopped = 0;
  none.fleet.boxes[kId].state = control::State::Stopped;
  none.fleet.boxes[kId].labels[std::string(kStoppedLabel)] = "5000000000";
  none.sweep();
  EXPECT_TRUE(none.fleet.boxes.empty());
}

TEST_F(DaivReaper, AnUnknownStopTimeBeginsNow) {
  house.fleet.boxes[kId].state = control::State::Stopped;
  house.sweep();
  EXPECT_EQ(house.fleet.boxes[kId].labels.at(std::string(kStoppedLabel)), "5000000000");
  house.wall += 43200LL * 1'000'000;
  house.sweep();
  EXPECT_FALSE(there(kId));
}

TEST_F(DaivReaper, RemovesRunningOnesThatNobodyUses) {
  house.sweep();  // after a restart nobody knows when it was used: its time begins
  house.now += seconds(14399);
  house.sweep();
  EXPECT_TRUE(there(kId));
  EXPECT_EQ(house.ask({Method::Get, "/session/" + kId + "/"})->code, 204U);
  house.now += seconds(14399);
  house.sweep();
  EXPECT_TRUE(there(kId));
  house.now += seconds(1);
  house.sweep();
  EXPECT_FALSE(there(kId));
}

TEST_F(DaivReaper, UseCountsAtItsEnd) {
  house.fleet.on_exec = [&](const std::string&, std::string&) {
    house.now += seconds(14400);
    return control::ExecOutcome{};
  };
  (void)house.post("", R"({"commands":["long"]})");
  house.now += seconds(14399);
  house.sweep();
  EXPECT_TRUE(there(kId));
}

TEST_F(DaivReaper, ZeroKeepsRunningOnes) {
  house.options.running_idle = seconds(0);
  house.sweep();
  house.now += seconds(10'000'000);
  house.sweep();
  EXPECT_TRUE(there(kId));
}

TEST_F(DaivReaper, LooksAgainBeforeItRemoves) {
  // Started, used or closed between the list and the turn.
  stopped("restarted", 50'000);
  stopped("again", 50'000);
  house.sweep();
  House race;
  race.fleet.add("a").state = control::State::Stopped;
  race.fleet.boxes["a"].labels[std::string(kStoppedLabel)] = "1";
  race.fleet.on_call = [&](const std::string& call) {
    if (call == "turn a") race.fleet.boxes["a"].state = control::State::Running;
  };
  race.sweep();
  EXPECT_TRUE(race.fleet.boxes.contains("a")) << "restarted meanwhile";
  race.fleet.on_call = nullptr;
  race.sweep();
  race.now += seconds(14400);
  race.fleet.busy.insert("a");
  race.sweep();
  EXPECT_TRUE(race.fleet.boxes.contains("a")) << "in use";
  race.fleet.busy.clear();
  race.fleet.on_call = [&](const std::string& call) {
    if (call == "turn a") race.fleet.boxes["a"].state = control::State::Stopped;
  };
  race.sweep();
  EXPECT_TRUE(race.fleet.boxes.contains("a")) << "stopped meanwhile";
}

TEST_F(DaivReaper, OneFailureKeepsNobody) {
  stopped("a", 50'000);
  stopped("b", 50'000);
  house.fleet.fails["destroy"] = Error{Errc::Internal, "no", 0, {}};
  house.fleet.on_call = [&](const std::string& call) {
    if (call == "destroy b") house.fleet.fails.clear();
  };
  house.sweep();
  EXPECT_TRUE(there("a"));
  EXPECT_FALSE(there("b"));
  EXPECT_EQ(house.failures.size(), 1U);
}

TEST_F(DaivReaper, KnowsEveryTenantAndTheirSecrets) {
  house.access.tenants = {"red"};
  auto& red = house.fleet.add("r", "red");
  red.state = control::State::Stopped;
  red.labels[std::string(kStoppedLabel)] = "1";
  const std::string body = R"({"base_image":"alpine","egress":)" + std::string(kEgress) + "}";
  EXPECT_EQ(house.ask({Method::Post, "/session/", body, "", "red/create"})->code, 200U);
  house.fleet.secrets["operators"] = "x";
  house.fleet.secrets["daiv-00000000-foreign-0"] = "y";
  house.sweep();
  EXPECT_FALSE(there("r"));
  EXPECT_EQ(house.fleet.secrets.size(), 3U) << "those of living sessions and of others stay";
  house.fleet.boxes.erase(kOtherId);  // ended by somebody else
  house.sweep();
  EXPECT_EQ(house.fleet.secrets.size(), 2U);
  EXPECT_TRUE(house.fleet.secrets.contains("operators"));
}

TEST_F(DaivReaper, CanBeOff) {
  house.options.reaper = false;
  stopped("old", 50'000);
  house.sweep();
  EXPECT_TRUE(there("old"));
}

}  // namespace
}  // namespace caisson::daiv
