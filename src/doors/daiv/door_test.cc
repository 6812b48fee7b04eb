// The order of the checks, the routes, and the life of a session: start, look, close.
#include <gtest/gtest.h>

#include "doors/daiv/fakes_test.h"
#include "doors/daiv/schema.h"

namespace caisson::daiv {
namespace {

using fake::Ask;
using fake::House;
using fake::kId;
using fake::kOtherId;
using http::Method;

const std::string kSession = "/session/" + kId + "/";
constexpr std::string_view kNotFoundBody = R"({"detail":"Session not found or already closed"})";

TEST(DaivDoor, KnowsItsPaths) {
  House house;
  for (const std::string path :
       {"/session/", "/session", "/session/x", "/session/x/", "/session/x/fs/ls", "/-/health/",
        "/-/health", "/-/version/", "/-/version"}) {
    EXPECT_TRUE(house.door().answers(path)) << path;
    EXPECT_TRUE(house.door().answers("/api/v1" + path)) << path;
    EXPECT_FALSE(house.door().answers("/api/v2" + path)) << path;
  }
  for (const std::string path : {"/", "/sessions", "/sessionx/", "/openapi.json", "/docs",
                                 "/api/v1/sandboxes", "/health", "/-/"})
    EXPECT_FALSE(house.door().answers(path)) << path;
}

TEST(DaivDoor, RoutesAndMethods) {
  House house;
  const auto unknown = house.ask({Method::Post, "/session/a/b/", "{}"});
  EXPECT_EQ(unknown->code, 404U);
  EXPECT_EQ(unknown->body, R"({"detail":"Not Found"})");
  const auto method = house.ask({Method::Get, "/session/"});
  EXPECT_EQ(method->code, 405U);
  EXPECT_EQ(method->body, R"({"detail":"Method Not Allowed"})");
  EXPECT_EQ(method->field("Allow"), "POST");
  EXPECT_EQ(house.ask({Method::Post, kSession + "egress/", "{}"})->field("Allow"), "PUT");
  EXPECT_EQ(house.ask({Method::Put, kSession, "{}"})->field("Allow"), "POST");
  EXPECT_EQ(house.ask({Method::Head, "/-/health/"})->code, 405U);
  EXPECT_EQ(house.ask({Method::Get, kSession + "fs/ls"})->code, 405U);
  EXPECT_EQ(house.ask({Method::Post, kSession + "fs/chmod", "{}"})->code, 404U);
}

TEST(DaivDoor, SendsTheOtherSlashOn) {
  House house;
  const auto added = house.ask({Method::Delete, "/api/v1/session/x", "", "force=true"});
  EXPECT_EQ(added->code, 307U);
  EXPECT_EQ(added->field("Location"), "http://sandbox:8000/api/v1/session/x/?force=true");
  EXPECT_EQ(added->body, "");
  const auto removed = house.ask({Method::Post, "/session/x/fs/ls/", "{}"});
  EXPECT_EQ(removed->code, 307U);
  EXPECT_EQ(removed->field("Location"), "http://sandbox:8000/session/x/fs/ls");
  EXPECT_EQ(house.ask({Method::Get, "/session"})->code, 307U) << "whatever the method";
  EXPECT_EQ(house.ask({Method::Get, "/-/health", "", "", ""})->code, 307U);
}

TEST(DaivDoor, ServiceRoutesNeedNoKey) {
  House house;
  const auto health = house.ask({Method::Get, "/api/v1/-/health/", "", "", ""});
  EXPECT_EQ(health->code, 200U);
  EXPECT_EQ(health->body, R"({"status":"ok"})");
  EXPECT_EQ(health->type, "application/json");
  house.fleet.not_ready = Error{Errc::LauncherGone, "away", 0, {}};
  EXPECT_EQ(house.ask({Method::Get, "/-/health/", "", "", ""})->code, 503U);
  EXPECT_EQ(house.ask({Method::Get, "/-/version/", "", "", ""})->body, R"({"version":"v0.6.0"})");
}

TEST(DaivDoor, ChecksInTheOriginalsOrder) {
  House house;
  const auto with = [&](std::string body, std::string key, std::string id = kId) {
    return house.ask({Method::Post, "/session/" + id + "/", std::move(body), "", std::move(key)});
  };
  EXPECT_EQ(with("{}", "")->body, R"({"detail":"API Key header is missing"})");
  EXPECT_EQ(with("{}", "")->code, 403U);
  EXPECT_EQ(with("{}", "wrong")->body, R"({"detail":"Invalid API Key"})");
  EXPECT_EQ(with("{}", "limited")->body, R"({"detail":"Invalid API Key"})");
  const auto malformed = with("{", "");
  EXPECT_EQ(malformed->code, 422U);
  EXPECT_EQ(malformed->body,
            R"({"detail":[{"type":"json_invalid","loc":["body",1],"msg":"JSON decode error",)"
            R"("input":{},"ctx":{"error":"Expecting property name enclosed in double quotes"}}]})");
  EXPECT_EQ(with("{}", std::string(fake::kKey), "unknown")->code, 422U) << "schema before session";
  EXPECT_EQ(with(R"({"commands":[]})", std::string(fake::kKey), "unknown")->body, kNotFoundBody);
  EXPECT_EQ(with("{", "", "a/b")->code, 404U) << "route before JSON";
  EXPECT_TRUE(house.fleet.calls.empty());
}

TEST(DaivDoor, EveryRouteOfASessionWantsAKeyAndASession) {
  House house;
  house.fleet.boxes[kId].labels.clear();  // a sandbox, but no session
  house.fleet.add(kOtherId, "other");
  const std::vector<std::tuple<Method, std::string, std::string>> routes = {
      {Method::Post, "", R"({"commands":[]})"},
      {Method::Get, "", ""},
      {Method::Put, "egress/", R"({"policy":{"default":"allow"}})"},
      {Method::Post, "fs/ls", R"({"path":"/workspace"})"},
      {Method::Post, "fs/read", R"({"path":"/workspace/a"})"},
      {Method::Post, "fs/grep", R"({"path":"/workspace/a","pattern":"x"})"},
      {Method::Post, "fs/glob", R"({"path":"/workspace/a","pattern":"x"})"},
      {Method::Post, "fs/write", R"({"path":"/workspace/a","content":""})"},
      {Method::Post, "fs/edit", R"({"path":"/workspace/a","old":"","new":""})"},
      {Method::Post, "fs/delete", R"({"path":"/workspace/a"})"}};
  for (const auto& [method, rest, body] : routes) {
    for (const std::string& id : {kId, kOtherId, std::string("nothing")}) {
      const auto known = house.ask({method, "/session/" + id + "/" + rest, body});
      EXPECT_EQ(known->code, 404U) << rest << id << known->body;
      const auto stranger = house.ask({method, "/session/" + id + "/" + rest, body, "", ""});
      EXPECT_EQ(stranger->code, 403U) << rest;
    }
  }
  EXPECT_EQ(house.ask({Method::Post, kSession + "seed/", "", "", ""})->code, 403U);
  EXPECT_EQ(house.ask({Method::Delete, kSession, "", "", ""})->code, 403U);
  // What is not there is as closed as it can be; what is no session is not touched.
  for (const std::string& id : {kId, kOtherId, std::string("nothing")})
    EXPECT_EQ(house.ask({Method::Delete, "/session/" + id + "/", "", "force=true"})->code, 204U);
  EXPECT_EQ(house.fleet.count("destroy"), 0U);
}

TEST(DaivDoor, TakesTokensOfTheServer) {
  House house;
  house.fleet.boxes[kId].tenant = "red";
  EXPECT_EQ(house.ask({Method::Get, kSession, "", "", "red/use"})->code, 204U);
  EXPECT_EQ(house.ask({Method::Get, kSession, "", "", "blue/use"})->code, 404U);
  EXPECT_EQ(house.ask({Method::Get, kSession, "", "", "red/read"})->code, 403U);
  EXPECT_EQ(
      house.ask({Method::Post, "/session/", R"({"base_image":"alpine"})", "", "red/use"})->code,
      403U);
  EXPECT_EQ(
      house.ask({Method::Post, "/session/", R"({"base_image":"alpine"})", "", "red/create"})->code,
      200U);
  EXPECT_EQ(house.fleet.creator.tenant, "red");
}

TEST(DaivDoor, AnOpenServerIsOpenToItsOwnMachineOnly) {
  House house;
  house.access.open = true;
  EXPECT_EQ(house.ask({Method::Get, kSession, "", "", "anything"})->code, 403U) << "a key is set";
  House open;
  open.access.open = true;
  open.options.api_key.clear();
  fake::Exchange local;
  House::fill(local, {Method::Get, kSession, "", "", "anything"});
  local.wanted.fields[0].value = "localhost:8000";
  open.run(local);
  EXPECT_EQ(local.code, 204U);
  EXPECT_EQ(open.ask({Method::Get, kSession, "", "", "anything"})->code, 403U) << "a foreign name";
  fake::Exchange far;
  House::fill(far, {Method::Get, kSession, "", "", "anything"});
  far.wanted.fields[0].value = "localhost:8000";
  far.wanted.peer = {"10.0.0.9", 1, false};
  open.run(far);
  EXPECT_EQ(far.code, 403U);
}

TEST(DaivDoor, BodiesThatAreNone) {
  House house;
  const auto none = house.ask({Method::Post, "/session/"});
  EXPECT_EQ(none->code, 422U);
  EXPECT_EQ(
      none->body,
      R"({"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":null}]})");
  EXPECT_EQ(house.ask({Method::Post, "/session/", "null"})->body, none->body);
  const auto text =
      house.ask({Method::Post, "/session/", "{}", "", std::string(fake::kKey), "text/plain"});
  EXPECT_EQ(text->code, 422U);
  EXPECT_NE(text->body.find("model_attributes_type"), std::string::npos);
  EXPECT_NE(text->body.find(R"("input":"{}")"), std::string::npos);
  for (const std::string type :
       {"", "application/problem+json", "Application/JSON; charset=utf-8"}) {
    const auto good =
        house.ask({Method::Post, "/session/", "{}", "", std::string(fake::kKey), type});
    EXPECT_NE(good->body.find(R"("loc":["body","base_image"])"), std::string::npos) << type;
  }
  EXPECT_EQ(house.ask({Method::Post, "/session/", "\"\xff\""})->body,
            R"({"detail":"There was an error parsing the body"})");
  EXPECT_EQ(house.ask({Method::Post, "/session/", "[1]"})->code, 422U);
  EXPECT_EQ(house
                .ask({Method::Post, "/session/", std::string(kRawBytesMax + 1, 'x'), "",
                      std::string(fake::kKey), "text/plain"})
                ->code,
            413U);
  const std::string large = "{\"base_image\":\"" + std::string(kTextBytesMax, 'x') + "\"}";
  EXPECT_EQ(house.ask({Method::Post, "/session/", large})->code, 413U);
}

TEST(DaivDoor, ReadsLittleOfAStranger) {
  House house;
  for (const std::string field : {"archive", "x"}) {
    fake::Exchange exchange;
    House::fill(exchange, {Method::Post, kSession, "{\"" + field + "\":\"", "", "wrong"});
    exchange.source = [] { return std::string(16384, 'A'); };  // it never ends
    house.run(exchange);
    EXPECT_EQ(exchange.code, 403U);
    EXPECT_LT(exchange.read, 2 * kUnknownBytesMax);
  }
  EXPECT_EQ(house.fleet.spools, 0U);
}

TEST(DaivDoor, AnswersNothingWhenItIsClosed) {
  House house;
  house.close();
  EXPECT_EQ(house.ask({Method::Get, kSession})->code, 503U);
}

TEST(DaivDoor, AFailureOfOursIsBare) {
  House house;
  house.fleet.fails["turn"] = Error{Errc::Internal, "a secret of ours", 0, {}};
  const auto answer = house.ask({Method::Get, kSession});
  EXPECT_EQ(answer->code, 500U);
  EXPECT_EQ(answer->body, "Internal Server Error");
  EXPECT_EQ(answer->type, "text/plain; charset=utf-8");
  EXPECT_EQ(house.failures, std::vector<std::string>{"a secret of ours"});
}

// ------------------------------------------------------------------------------------ start

TEST(DaivStart, MakesTheSandbox) {
  House house;
  const auto answer = house.ask({Method::Post, "/api/v1/session/",
                                 R"({"base_image":"alpine","ephemeral":true,"extract_patch":true,)"
                                 R"("environment":{"A":"b"},"memory_bytes":1048576,"cpus":0.5,)"
                                 R"("dockerfile":null,"egress":null})"});
  EXPECT_EQ(answer->code, 200U);
  EXPECT_EQ(answer->body, R"({"session_id":")" + kOtherId + R"("})");
  const control::CreateWish& wish = house.fleet.created;
  EXPECT_EQ(wish.image, "alpine");
  EXPECT_EQ(wish.uid, 1000U);
  EXPECT_EQ(wish.gid, 1000U);
  EXPECT_EQ(wish.root, engine::RootMode::Writable);
  EXPECT_EQ(wish.limits.memory_bytes, 1048576U);
  EXPECT_EQ(wish.limits.cpu, 0.5);
  EXPECT_EQ(wish.workdir, "/workspace/repo");
  EXPECT_EQ(wish.aliases.at(0), (engine::Alias{"/repo", "/workspace/repo"}));
  EXPECT_EQ(wish.folders.size(), 6U);
  EXPECT_EQ(wish.environment, (Pairs{{"A", "b"}}));
  EXPECT_EQ(wish.network.mode, "none");
  EXPECT_FALSE(wish.network.rules);
  EXPECT_EQ(wish.persistent, true);
  EXPECT_EQ(wish.labels.at("daiv.sandbox.type"), "cmd_executor");
  EXPECT_EQ(wish.labels.at("daiv.sandbox.ephemeral_session"), "1");
  EXPECT_EQ(wish.labels.at("daiv.sandbox.extract_patch"), "1");
  EXPECT_EQ(house.fleet.count("pull"), 0U) << "what is here is not refreshed";
}

TEST(DaivStart, ZeroIsNoLimitAndNetworkIsEverywhere) {
  House house;
  house.fleet.disk = false;
  EXPECT_EQ(house
                .ask({Method::Post, "/session/",
                      R"({"base_image":"host","memory_bytes":0,"cpus":0,"network_enabled":"yes"})"})
                ->code,
            200U);
  const control::CreateWish& wish = house.fleet.created;
  EXPECT_FALSE(wish.limits.memory_bytes || wish.limits.cpu);
  EXPECT_EQ(wish.persistent, false);
  EXPECT_EQ(wish.network.mode, "allowlist");
  ASSERT_EQ(wish.network.rules->size(), 1U);
  EXPECT_EQ(wish.network.rules->at(0).domain, "*");
  EXPECT_TRUE(wish.network.rules->at(0).granted_addresses.empty());
}

TEST(DaivStart, FetchesWhatIsMissing) {
  House house;
  EXPECT_EQ(house.ask({Method::Post, "/session/", R"({"base_image":"python:3"})"})->code, 200U);
  EXPECT_EQ(house.fleet.count("pull"), 1U);
  house.fleet.pull_fails = Error{Errc::NotFound, "the registry has no such image", 0, {}};
  const auto missing = house.ask({Method::Post, "/session/", R"({"base_image":"nope"})"});
  EXPECT_EQ(missing->code, 400U);
  EXPECT_EQ(missing->body, R"({"detail":"the registry has no such image"})");
  EXPECT_EQ(house.ask({Method::Post, "/session/", R"({"base_image":"UPPER"})"})->code, 400U);
  EXPECT_EQ(house.ask({Method::Post, "/session/", R"({"base_image":""})"})->code, 400U);
  EXPECT_EQ(house.fleet.count("create"), 1U);
}

TEST(DaivStart, TellsWhatItCannotDo) {
  House house;
  EXPECT_EQ(
      house.ask({Method::Post, "/session/", R"({"base_image":"alpine","memory_bytes":-1})"})->code,
      422U);
  EXPECT_EQ(house.ask({Method::Post, "/session/", R"({"base_image":"alpine","cpus":-0.5})"})->code,
            422U);
  house.fleet.fails["create"] = Error{Errc::InvalidArgument, "resource_limits.memory_mb is 0.1", 0,
                                      "resource_limits.memory_mb"};
  EXPECT_EQ(
      house.ask({Method::Post, "/session/", R"({"base_image":"alpine","memory_bytes":1})"})->code,
      422U);
  house.fleet.fails["create"] =
      Error{Errc::InvalidArgument, "network.rules[0].domain", 0, "network.rules[0].domain"};
  const auto network =
      house.ask({Method::Post, "/session/", R"({"base_image":"alpine","network_enabled":true})"});
  EXPECT_EQ(network->code, 422U);
  EXPECT_NE(network->body.find("network_enabled"), std::string::npos);
  house.fleet.fails["create"] = Error{Errc::Exhausted, "too many", 0, {}};
  EXPECT_EQ(house.ask({Method::Post, "/session/", R"({"base_image":"alpine"})"})->code, 503U);
}

TEST(DaivStart, TakesAShorterLifeWhereTheServerBoundsIt) {
  House house;
  house.fleet.fails["create"] =
      Error{Errc::Denied, "too long", 0, "resource_limits.timeout_seconds"};
  house.fleet.on_call = [&](const std::string& call) {
    if (call.starts_with("create") && house.fleet.count("create") == 2) house.fleet.fails.clear();
  };
  EXPECT_EQ(house.ask({Method::Post, "/session/", R"({"base_image":"alpine"})"})->code, 200U);
  EXPECT_FALSE(house.fleet.created.limits.timeout_seconds);
}

// ------------------------------------------------------------------------------------ close

TEST(DaivClose, StopsOrRemoves) {
  struct Case {
    std::string query;
    bool older;
    bool close_removes;
    bool removed;
  };
  for (const Case& one :
       {Case{"force=true", false, false, true}, Case{"force=false", true, true, false},
        Case{"", false, false, false}, Case{"", true, false, true}, Case{"", false, true, true},
        Case{"force=1", false, false, true}}) {
    House house;
    house.options.close_removes = one.close_removes;
    if (one.older) house.fleet.boxes[kId].labels[std::string(kOlderApiLabel)] = "1";
    const auto answer = house.ask({Method::Delete, kSession, "", one.query});
    EXPECT_EQ(answer->code, 204U);
    EXPECT_EQ(answer->body, "");
    EXPECT_EQ(house.fleet.count("destroy"), one.removed ? 1U : 0U) << one.query << one.older;
    EXPECT_EQ(house.fleet.count("stop"), one.removed ? 0U : 1U) << one.query << one.older;
    if (!one.removed)
      EXPECT_EQ(house.fleet.boxes[kId].labels.at(std::string(kStoppedLabel)), "5000000000");
  }
}

TEST(DaivClose, AStoppedOneComesBack) {
  House house;
  (void)house.ask({Method::Delete, kSession, "", "force=false"});
  house.wall += 1'000'000;
  (void)house.ask({Method::Delete, kSession, "", "force=false"});
  EXPECT_EQ(house.fleet.count("stop"), 1U);
  EXPECT_EQ(house.fleet.boxes[kId].labels.at(std::string(kStoppedLabel)), "5000000000")
      << "since then";
  EXPECT_EQ(house.ask({Method::Get, kSession})->code, 204U);
  EXPECT_EQ(house.fleet.boxes[kId].state, control::State::Running);
  EXPECT_FALSE(house.fleet.boxes[kId].labels.contains(std::string(kStoppedLabel)));
}

TEST(DaivClose, WhereFilesDoNotOutliveAStopItHoldsStill) {
  House house;
  house.fleet.boxes[kId].persistent = false;
  EXPECT_EQ(house.ask({Method::Delete, kSession, "", "force=false"})->code, 204U);
  EXPECT_EQ(house.fleet.count("pause"), 1U);
  EXPECT_EQ(house.post("", R"({"commands":[]})")->code, 200U);
  EXPECT_EQ(house.fleet.count("resume"), 1U);
}

TEST(DaivClose, Failures) {
  House house;
  house.fleet.busy.insert(kId);
  const auto busy = house.ask({Method::Delete, kSession});
  EXPECT_EQ(busy->code, 409U);
  EXPECT_EQ(busy->body, R"({"detail":"Session is busy"})");
  house.fleet.busy.clear();
  house.fleet.fails["stop"] = Error{Errc::Internal, "x", 0, {}};
  EXPECT_EQ(house.ask({Method::Delete, kSession})->body,
            R"({"detail":"Session ')" + kId + R"(' could not be stopped"})");
  house.fleet.boxes[kId].state = control::State::Stopped;
  house.fleet.fails["start"] = Error{Errc::Internal, "x", 0, {}};
  const auto stuck = house.ask({Method::Get, kSession});
  EXPECT_EQ(stuck->code, 503U);
  EXPECT_EQ(stuck->body, R"({"detail":"Session ')" + kId + R"(' could not be restarted"})");
  const auto query = house.ask({Method::Delete, kSession, "", "force=maybe"});
  EXPECT_EQ(query->code, 422U);
  EXPECT_EQ(query->body,
            R"({"detail":[{"type":"bool_parsing","loc":["query","force"],"msg":"Input should be a )"
            R"(valid boolean, unable to interpret input","input":"maybe"}]})");
}

}  // namespace
}  // namespace caisson::daiv
