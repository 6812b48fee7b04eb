// The door's own order: Host, Origin, route, token, scope, id, query, body; and the shape of
// errors.
#include <gtest/gtest.h>

#include "doors/rest/errors.h"
#include "doors/rest/fakes_test.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/router.h"

namespace caisson::rest {
namespace {

using fake::Ask;
using fake::error_of;
using fake::House;
using fake::kForeignId;
using fake::kId;
using fake::sandbox_path;
using http::Method;

std::string concrete(const Route& route, std::string_view id) {
  std::string path(route.pattern);
  for (std::size_t at = 0; (at = path.find('{')) != std::string::npos;) {
    const std::size_t end = path.find('}', at);
    const bool is_id = path.substr(at, end - at + 1) == "{id}";
    path.replace(at, end - at + 1, is_id ? id : "4");
  }
  return path;
}

Ask ask_for(const Route& route, std::string_view id, std::string token) {
  Ask ask{route.method, concrete(route, id), "", "", std::move(token)};
  if (route.operation.ends_with("Socket") || route.operation == "openTerminal") {
    ask.fields.push_back({"Upgrade", "websocket"});
  }
  return ask;
}

TEST(Door, EveryRouteAsksForItsToken) {
  House house;
  for (const Route& route : routes()) {
    const auto without = house.ask(ask_for(route, kId, ""));
    const auto unknown = house.ask(ask_for(route, kId, "nobody"));
    if (route.need == Need::None) {
      EXPECT_LT(without->code, 300U) << route.operation;
      continue;
    }
    for (const auto* answer : {without.get(), unknown.get()}) {
      EXPECT_EQ(answer->code, 401U) << route.operation;
      EXPECT_EQ(answer->field("WWW-Authenticate"), R"(Bearer realm="caisson")");
      if (route.method != Method::Head) {
        EXPECT_EQ(error_of(*answer).at("code"), "Unauthenticated");
      }
    }
  }
  EXPECT_TRUE(house.fleet.calls.empty());
}

TEST(Door, EveryRouteAsksForItsScope) {
  House house;
  house.fleet.fails = Error{Errc::Busy, "stop here", 0, {}};
  for (const Route& route : routes()) {
    if (route.need == Need::None) continue;
    for (const std::string scope : {"read", "use", "create"}) {
      if (to_string(route.need) == scope) continue;
      house.fleet.calls.clear();
      const auto answer = house.ask(ask_for(route, kId, scope));
      EXPECT_EQ(answer->code, 403U) << route.operation << " with " << scope;
      EXPECT_TRUE(house.fleet.calls.empty()) << route.operation;
    }
    for (const std::string_view scope : {to_string(route.need), std::string_view("admin")}) {
      if (scope == "create" && route.operation == "run") continue;  // it is an exec, too
      const auto answer = house.ask(ask_for(route, kId, std::string(scope)));
      EXPECT_NE(answer->code, 403U) << route.operation << " with " << scope;
      EXPECT_NE(answer->code, 401U) << route.operation << " with " << scope;
    }
  }
}

TEST(Door, AForeignAMalformedAndAnUnknownSandboxAreOne) {
  House house;
  for (const Route& route : routes()) {
    if (!route.pattern.starts_with("/api/v1/sandboxes/{id}")) continue;
    Ask ask = ask_for(route, kForeignId, "admin");
    const auto foreign = house.ask(ask);
    const auto malformed = house.ask(ask_for(route, "x", "admin"));
    EXPECT_EQ(malformed->code, 404U) << route.operation;
    if (foreign->code != 404U) {  // a body is asked for first, in the same words for everybody
      EXPECT_EQ(foreign->code, 400U) << route.operation;
      continue;
    }
    EXPECT_EQ(foreign->body, malformed->body) << route.operation;
  }
}

TEST(Door, RefusesOtherNamesAndOtherPages) {
  House house;
  EXPECT_EQ(house.ask({.path = "/healthz", .host = "evil.example"})->code, 421U);
  EXPECT_EQ(house.ask({.path = "/healthz", .host = ""})->code, 421U);
  EXPECT_EQ(house.ask({.path = "/healthz"})->code, 200U);
  for (const std::string origin : {"null", "http://evil.example", "http://localhost:1", ""}) {
    const auto answer = house.ask(
        {.method = Method::Post, .path = "/api/v1/sandboxes", .fields = {{"Origin", origin}}});
    EXPECT_EQ(answer->code, 403U) << origin;
    const auto socket = house.ask({.path = sandbox_path("/terminal"),
                                   .fields = {{"Origin", origin}, {"Upgrade", "websocket"}}});
    EXPECT_EQ(socket->code, 403U) << origin;
  }
  EXPECT_TRUE(house.fleet.calls.empty());
  const auto own = house.ask({.method = Method::Post,
                              .path = "/api/v1/sandboxes",
                              .fields = {{"Origin", "http://localhost:8080"}}});
  EXPECT_EQ(own->code, 201U);
  EXPECT_EQ(own->field("Access-Control-Allow-Origin"), "");
}

TEST(Door, AnOpenServerAnswersItsOwnMachineOnly) {
  House house;
  house.options.open = true;
  house.access.open = true;
  EXPECT_EQ(house.ask({.path = "/api/v1/sandboxes", .token = ""})->code, 200U);
  fake::Exchange exchange;
  House::fill(exchange, {.path = "/api/v1/sandboxes", .token = ""});
  exchange.wanted.peer = {"10.0.0.7", 1, false};
  house.run(exchange);
  EXPECT_EQ(exchange.code, 403U);
}

TEST(Door, AFormCannotPost) {
  House house;
  for (const std::string type : {"text/plain", "application/x-www-form-urlencoded",
                                 "multipart/form-data; boundary=x", "application/jsonx", ""}) {
    const auto answer = house.ask({.method = Method::Post,
                                   .path = "/api/v1/sandboxes",
                                   .body = "{}",
                                   .fields = {{"Content-Type", type}},
                                   .json = false});
    EXPECT_EQ(answer->code, 415U) << type;
    EXPECT_EQ(error_of(*answer).at("code"), "UnsupportedMediaType");
  }
  const auto input = house.ask({.method = Method::Post,
                                .path = sandbox_path("/processes/4/input"),
                                .body = "x",
                                .fields = {{"Content-Type", "text/plain"}},
                                .json = false});
  EXPECT_EQ(input->code, 415U);
  EXPECT_TRUE(house.fleet.calls.empty());
  const auto good = house.ask({.method = Method::Post,
                               .path = "/api/v1/sandboxes",
                               .body = "{}",
                               .fields = {{"Content-Type", "Application/JSON; charset=utf-8"}},
                               .json = false});
  EXPECT_EQ(good->code, 201U);
  EXPECT_EQ(good->field("Location"), "/api/v1/sandboxes/" + kId);
}

TEST(Door, ATokenInAnAddressIsRefused) {
  House house;
  for (const std::string name : {"token", "access_token", "api_key"}) {
    const auto answer = house.ask({.path = "/api/v1/sandboxes", .query = name + "=x"});
    EXPECT_EQ(answer->code, 400U);
    EXPECT_EQ(error_of(*answer).at("details").at("field"), boost::json::value(name));
  }
}

TEST(Door, KnowsItsQueries) {
  House house;
  const auto code = [&](std::string path, std::string query) {
    return house.ask({.path = std::move(path), .query = std::move(query)})->code;
  };
  EXPECT_EQ(code("/api/v1/sandboxes", "a=1"), 400U);
  EXPECT_EQ(code(sandbox_path("/list/x"), "recursive=yes"), 400U);
  EXPECT_EQ(code(sandbox_path("/list/x"), "recursive=true&recursive=true"), 400U);
  EXPECT_EQ(code(sandbox_path("/list/x"), "recursive=%zz"), 400U);
  EXPECT_EQ(code(sandbox_path("/list/x"), "recursive=true"), 200U);
  for (const std::string bad : {"-1", "1.5", "", "x", "1001", "99999999999999999999"}) {
    EXPECT_EQ(code("/api/v1/audit", "limit=" + bad), 400U) << bad;
  }
  EXPECT_EQ(code("/api/v1/audit", "limit=1000"), 200U);
  EXPECT_EQ(code("/api/v1/audit", "after=1&before=2"), 400U);
  EXPECT_EQ(code("/api/v1/audit", "outcome=maybe"), 400U);
}

TEST(Door, SaysWhichMethodsThereAre) {
  House house;
  const auto answer = house.ask({.method = Method::Patch, .path = "/api/v1/sandboxes"});
  EXPECT_EQ(answer->code, 405U);
  EXPECT_EQ(answer->field("Allow"), "POST, GET");
  EXPECT_EQ(house.ask({.path = "/nowhere"})->code, 404U);
}

TEST(Door, RateLimitsAndScopesHaveTheirFields) {
  House house;
  const auto answer = house.ask({.path = "/api/v1/sandboxes", .token = "limited"});
  EXPECT_EQ(answer->code, 429U);
  EXPECT_EQ(answer->field("Retry-After"), "60");
}

TEST(Door, EachCodeHasItsStatus) {
  const std::pair<Errc, unsigned> table[] = {{Errc::InvalidArgument, 400},
                                             {Errc::Unauthenticated, 401},
                                             {Errc::Denied, 403},
                                             {Errc::NotFound, 404},
                                             {Errc::AlreadyExists, 409},
                                             {Errc::Busy, 409},
                                             {Errc::Gone, 410},
                                             {Errc::TooLarge, 413},
                                             {Errc::Exhausted, 429},
                                             {Errc::Internal, 500},
                                             {Errc::Unsupported, 501},
                                             {Errc::Protocol, 502},
                                             {Errc::LauncherGone, 503},
                                             {Errc::TimedOut, 504},
                                             {Errc::StoreFull, 507}};
  for (const auto& [code, status] : table) {
    House house;
    house.fleet.fails = Error{code, "because", 0, "a.field"};
    const auto answer = house.ask({.method = Method::Delete, .path = sandbox_path("")});
    EXPECT_EQ(answer->code, status) << to_string(code);
    const auto error = error_of(*answer);
    EXPECT_EQ(error.at("code"), boost::json::value(to_string(code)));
    EXPECT_EQ(error.at("request_id"), "00c4d7f1a2b3e596");
    EXPECT_EQ(error.at("details").at("field"), "a.field");
    EXPECT_EQ(answer->field("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(house.log.statuses, std::vector{status});
  }
}

TEST(Door, KeepsItsOwnTroubleToItself) {
  House house;
  house.fleet.fails = Error{Errc::Internal, "open /secret/path: Permission denied", 13, {}};
  const auto answer = house.ask({.method = Method::Delete, .path = sandbox_path("")});
  EXPECT_EQ(answer->code, 500U);
  EXPECT_EQ(answer->body.find("/secret/path"), std::string::npos);
  EXPECT_NE(answer->body.find("00c4d7f1a2b3e596"), std::string::npos);
  ASSERT_EQ(house.log.failures.size(), 1U);
  EXPECT_NE(house.log.failures[0].find("/secret/path"), std::string::npos);
}

TEST(Door, AClosedDoorTakesNothingNew) {
  House house;
  EXPECT_EQ(house.ask({.path = "/api/v1/sandboxes"})->code, 200U);
  house.close();
  house.fleet.calls.clear();
  for (const Route& route : routes()) {
    const auto answer = house.ask(ask_for(route, kId, "admin"));
    EXPECT_EQ(answer->code, 503U) << route.operation;
    EXPECT_EQ(answer->field("Retry-After"), "5");
  }
  EXPECT_TRUE(house.fleet.calls.empty());
}

// Each kind of call that holds much asks for room first, and one without room is told so.
TEST(Door, WithoutRoomNothingLargeIsTaken) {
  House house;
  house.options.held_per_tenant_max = 20'000;
  house.options.held_patience = milliseconds(0);
  const std::string large = R"({"name": ")" + std::string(100'000, 'n') + R"("})";
  auto answer = house.ask({.method = Method::Post, .path = "/api/v1/sandboxes", .body = large});
  EXPECT_EQ(answer->code, 429U);
  EXPECT_EQ(answer->field("Retry-After"), "1");
  answer = house.ask({.path = sandbox_path("/list/")});
  EXPECT_EQ(answer->code, 429U);
  answer = house.ask(
      {.method = Method::Post, .path = sandbox_path("/exec"), .body = R"({"command": "true"})"});
  EXPECT_EQ(answer->code, 429U);
  EXPECT_TRUE(house.fleet.calls.empty());
  // What is small goes on.
  EXPECT_EQ(house.ask({.method = Method::Post, .path = "/api/v1/sandboxes", .body = "{}"})->code,
            201U);
}

// A command's output is counted while it comes: what finds no room is never kept.
TEST(Door, OutputThatFindsNoRoomIsDroppedAsItComes) {
  House house;
  house.options.held_per_tenant_max = 100'000;
  house.fleet.outcome.out = std::string(1'000'000, 'x');
  auto answer = house.ask(
      {.method = Method::Post, .path = sandbox_path("/exec"), .body = R"({"command": "yes"})"});
  ASSERT_EQ(answer->code, 200U);
  const auto body = boost::json::parse(answer->body);
  const std::size_t kept = body.at("stdout").as_string().size();
  EXPECT_GT(kept, 90'000U);
  EXPECT_LE(kept, 100'000U) << "twice the tenant's part, and each byte counts twice";
  EXPECT_EQ(kept + body.at("stdout_lost_bytes").to_number<std::size_t>(), 1'000'000U);
  answer = house.ask({.method = Method::Post,
                      .path = sandbox_path("/tools/execute"),
                      .body = R"({"tool":"shell_exec","arguments":{"command":"yes"}})"});
  ASSERT_EQ(answer->code, 200U);
  const auto tool = boost::json::parse(answer->body);
  EXPECT_GT(tool.at("result").at("stdout").as_string().size(), 90'000U);
  EXPECT_LE(tool.at("result").at("stdout").as_string().size(), 100'000U);
}

// Each byte that is no UTF-8 is three in JSON: what is counted is what there is.
TEST(Door, OutputThatGrowsAsJsonIsCutToWhatFits) {
  House house;
  house.options.held_per_tenant_max = 100'000;
  house.fleet.outcome.out = std::string(95'000, '\xff');
  const auto answer = house.ask(
      {.method = Method::Post, .path = sandbox_path("/exec"), .body = R"({"command": "yes"})"});
  ASSERT_EQ(answer->code, 200U);
  const auto body = boost::json::parse(answer->body);
  EXPECT_EQ(body.at("stdout").as_string().size(), 75'000U);
  EXPECT_EQ(body.at("stdout_lost_bytes"), 70'000);
}

TEST(Door, ASmallUploadIsNotCounted) {
  House house;
  house.options.held_per_tenant_max = 20'000;
  house.options.held_patience = milliseconds(0);
  auto answer = house.ask(
      {.method = Method::Put, .path = sandbox_path("/files/a"), .body = std::string(100, 'x')});
  EXPECT_EQ(answer->code, 200U);
  answer = house.ask(
      {.method = Method::Put, .path = sandbox_path("/files/a"), .body = std::string(100'000, 'x')});
  EXPECT_EQ(answer->code, 429U);
}

TEST(Door, RefusesABodyThatIsTooLarge) {
  House house;
  const auto answer = house.ask({.method = Method::Post,
                                 .path = "/api/v1/sandboxes",
                                 .body = std::string(kJsonBytesMax + 1, ' ')});
  EXPECT_EQ(answer->code, 413U);
}

TEST(Door, ToolsComeBackWithTheirResult) {
  House house;
  const auto answer = house.ask({.method = Method::Post,
                                 .path = sandbox_path("/tools/execute"),
                                 .body = R"({"tool":"file_read","arguments":{"path":"a"}})"});
  EXPECT_EQ(answer->code, 200U);
  const auto body = boost::json::parse(answer->body);
  EXPECT_EQ(body.at("tool"), "file_read");
  EXPECT_EQ(body.at("success"), true);
  EXPECT_EQ(body.at("result").at("path"), "a");
  for (const std::string bad : {"{}", R"({"tool":1})", R"({"tool":""})", R"({"tool":null})",
                                R"({"tool":"a","arguments":[]})", R"({"tool":"a","x":1})", "[]",
                                R"({"tool":"a","tool":"b"})"}) {
    const auto refused =
        house.ask({.method = Method::Post, .path = sandbox_path("/tools/execute"), .body = bad});
    EXPECT_EQ(refused->code, 400U) << bad;
  }
}

TEST(Door, AuditIsTheTenantsOwn) {
  House house;
  EXPECT_EQ(house.ask({.path = "/api/v1/audit", .token = "read"})->code, 200U);
  EXPECT_EQ(house.store.asked.tenant, "default");
  EXPECT_EQ(house.ask({.path = "/api/v1/audit", .query = "tenant=other", .token = "read"})->code,
            403U);
  EXPECT_EQ(house.ask({.path = "/api/v1/audit"})->code, 200U);
  EXPECT_FALSE(house.store.asked.tenant);
  const auto logs = house.ask({.path = sandbox_path("/logs"), .query = "after=3&limit=7"});
  EXPECT_EQ(house.store.asked.sandbox, kId);
  EXPECT_EQ(house.store.asked.after, 3);
  EXPECT_EQ(house.store.asked.limit, 7U);
  EXPECT_EQ(boost::json::parse(logs->body).at("next_after"), 5);
}

TEST(Door, SpeaksOfItself) {
  House house;
  EXPECT_EQ(boost::json::parse(house.ask({.path = "/healthz", .token = ""})->body).at("version"),
            "9.9");
  EXPECT_EQ(house.ask({.path = "/readyz", .token = ""})->code, 200U);
  house.fleet.not_ready = Error{Errc::LauncherGone, "socket /run/secret", 0, {}};
  const auto unready = house.ask({.path = "/readyz", .token = ""});
  EXPECT_EQ(unready->code, 503U);
  EXPECT_EQ(error_of(*unready).at("code"), "LauncherGone");
  EXPECT_EQ(unready->body.find("/run/secret"), std::string::npos);
  const auto contract = house.ask({.path = "/openapi.json", .token = ""});
  EXPECT_EQ(boost::json::parse(contract->body).at("openapi"), "3.1.0");
  const auto docs = house.ask({.path = "/docs", .token = ""});
  EXPECT_EQ(docs->body.find("<script"), std::string::npos);
  EXPECT_TRUE(docs->field("Content-Security-Policy").starts_with("default-src 'none'; style-src"));
  const auto metrics = house.ask({.path = "/metrics"});
  EXPECT_NE(metrics->body.find("caisson_login_failures_total 7\n"), std::string::npos);
  EXPECT_NE(metrics->body.find(
                R"(caisson_http_requests_total{route="/readyz",method="GET",status="503"} 1)"),
            std::string::npos);
}

TEST(Door, TokensNeedTheirScopes) {
  House house;
  for (const std::string bad : {"{}", R"({"scopes":[]})", R"({"scopes":["root"]})",
                                R"({"scopes":["read","read"]})", R"({"scopes":"read"})"}) {
    EXPECT_EQ(house.ask({.method = Method::Post, .path = "/api/v1/tokens", .body = bad})->code,
              400U)
        << bad;
  }
  const auto made = house.ask(
      {.method = Method::Post, .path = "/api/v1/tokens", .body = R"({"scopes":["read","use"]})"});
  EXPECT_EQ(made->code, 201U);
  EXPECT_EQ(boost::json::parse(made->body).at("token"), "cais_secret");
  EXPECT_EQ(boost::json::parse(made->body).at("scopes").as_array().size(), 2U);
}

TEST(Door, AMissingScopeIsTold) {
  House house;
  EXPECT_EQ(house.ask({.path = "/api/v1/tokens", .token = "use"})->code, 403U);
  ASSERT_EQ(house.access.denials.size(), 1U);
  EXPECT_EQ(house.access.denials[0], "GET /api/v1/tokens");
  EXPECT_EQ(house.ask({.path = "/api/v1/tokens"})->code, 200U);
  EXPECT_EQ(house.access.denials.size(), 1U);
}

TEST(Door, ATokenThatIsWithdrawnCutsItsCall) {
  House house;
  house.access.withdrawn = true;
  EXPECT_TRUE(house.ask({.path = "/api/v1/sandboxes"})->was_cut);
  EXPECT_FALSE(house.ask({.path = "/healthz"})->was_cut) << "nobody's token is asked for";
}

}  // namespace
}  // namespace caisson::rest
