// Streams: events and WebSockets of commands, and what happens when the caller leaves.
#include <gtest/gtest.h>

#include <algorithm>

#include "doors/rest/fakes_test.h"

namespace caisson::rest {
namespace {

using control::OutputChunk;
using fake::Exchange;
using fake::House;
using fake::sandbox_path;
using http::Method;

void fill_output(House& house) {
  house.fleet.output.emplace_back(OutputChunk{false, 0, 0, "hello\n"});
  house.fleet.output.emplace_back(OutputChunk{true, 2, 2, "\n\ndata: evil\xff"});
  house.fleet.output.emplace_back(fake::Fleet::process_view(false));
}

bool called(const House& house, std::string_view what) {
  return std::ranges::find(house.fleet.calls, what) != house.fleet.calls.end();
}

TEST(ExecEvents, StartOutputExit) {
  House house;
  fill_output(house);
  const auto answer = house.ask({.method = Method::Post,
                                 .path = sandbox_path("/exec"),
                                 .query = "stream=sse",
                                 .body = R"({"command":"x"})"});
  EXPECT_EQ(answer->code, 200U);
  EXPECT_EQ(answer->type, "text/event-stream");
  EXPECT_TRUE(answer->ended);
  EXPECT_EQ(answer->body,
            "retry: 2000\n\n"
            "event: start\ndata: {\"process\":4,\"pid\":0}\n\n"
            "event: stdout\ndata: {\"offset\":0,\"lost\":0,\"data\":\"aGVsbG8K\"}\n\n"
            "event: stderr\ndata: {\"offset\":2,\"lost\":2,\"data\":\"CgpkYXRhOiBldmls/w==\"}\n\n"
            "event: exit\ndata: {\"exit_code\":3,\"signal\":0,\"timed_out\":false,"
            "\"oom_killed\":false}\n\n");
  EXPECT_TRUE(called(house, "forget"));
}

TEST(ExecEvents, WhoHangsUpKillsTheTree) {
  House house;
  house.fleet.output_ends = false;
  Exchange exchange;
  House::fill(exchange, {.method = Method::Post,
                         .path = sandbox_path("/exec"),
                         .body = R"({"command":"sleep 9","stdin":"in"})",
                         .fields = {{"Accept", "text/event-stream"}}});
  exchange.hangs_up = true;
  house.run(exchange);
  EXPECT_EQ(exchange.code, 200U);
  EXPECT_FALSE(exchange.ended);
  EXPECT_TRUE(called(house, "signal 9 tree"));
  EXPECT_TRUE(called(house, "forget"));
}

TEST(ExecEvents, ASandboxThatDiesIsToldInTheStream) {
  House house;  // no output: the stream ends with Gone
  const auto answer = house.ask({.method = Method::Post,
                                 .path = sandbox_path("/exec"),
                                 .query = "stream=sse",
                                 .body = R"({"command":"x"})"});
  EXPECT_NE(answer->body.find("event: error\ndata: {\"error\": {\"code\": \"Gone\""),
            std::string::npos)
      << answer->body;
  EXPECT_TRUE(answer->ended);
}

TEST(Exec, CollectsAndEncodes) {
  House house;
  house.fleet.outcome.exit_code = 137;
  house.fleet.outcome.timed_out = true;
  house.fleet.outcome.out = "ok\xff";
  auto answer = house.ask(
      {.method = Method::Post, .path = sandbox_path("/exec"), .body = R"({"argv":["a"]})"});
  EXPECT_EQ(answer->code, 200U);
  auto body = boost::json::parse(answer->body);
  EXPECT_EQ(body.at("stdout"), "ok\xEF\xBF\xBD");
  EXPECT_EQ(body.at("timed_out"), true);
  EXPECT_EQ(body.at("exit_code"), 137);
  answer = house.ask({.method = Method::Post,
                      .path = sandbox_path("/exec"),
                      .body = R"({"argv":["a"],"encoding":"base64","stdin":"aGk=",)"
                              R"("stdin_encoding":"base64"})"});
  body = boost::json::parse(answer->body);
  EXPECT_EQ(body.at("stdout"), "b2v/");
  EXPECT_EQ(house.fleet.executed.input, "hi");
}

TEST(Code, IsRunAndToldWithAllThatItShows) {
  House house;
  house.fleet.code_outcome.value = "2\xff";
  house.fleet.code_outcome.error = control::CodeError{"E", "v", "t"};
  house.fleet.code_outcome.outputs.push_back({true, {{"text/plain", "2"}}});
  const auto answer = house.ask(
      {.method = Method::Post,
       .path = sandbox_path("/code"),
       .body = R"({"code":"1+1","language":"javascript","context":"c","timeout_seconds":3})"});
  EXPECT_EQ(answer->code, 200U) << answer->body;
  const auto body = boost::json::parse(answer->body);
  EXPECT_EQ(body.at("value"), "2\xEF\xBF\xBD");
  EXPECT_EQ(body.at("error").at("name"), "E");
  EXPECT_EQ(body.at("outputs").at(0).at("data").at("text/plain"), "2");
  EXPECT_EQ(house.fleet.ran.language, control::Language::JavaScript);
  EXPECT_EQ(house.fleet.ran.context, "c");
  EXPECT_EQ(house.fleet.ran.timeout_seconds, 3);
  for (const char* bad : {"{}", R"({"code":1})", R"({"code":"","language":"ruby"})",
                          R"({"code":"","cod":""})", R"({"code":"","timeout_seconds":0})"}) {
    const auto refused =
        house.ask({.method = Method::Post, .path = sandbox_path("/code"), .body = bad});
    EXPECT_EQ(refused->code, 400U) << bad;
  }
}

TEST(Code, ContextsAreOpenedListedInterruptedAndEnded) {
  House house;
  auto answer = house.ask(
      {.method = Method::Post, .path = sandbox_path("/contexts"), .body = R"({"imports":["a"]})"});
  EXPECT_EQ(answer->code, 201U) << answer->body;
  EXPECT_EQ(boost::json::parse(answer->body).at("language"), "python");
  answer = house.ask({.path = sandbox_path("/contexts")});
  EXPECT_EQ(boost::json::parse(answer->body).at("contexts").as_array().size(), 1U);
  answer = house.ask({.method = Method::Post, .path = sandbox_path("/contexts/abc/interrupt")});
  EXPECT_EQ(answer->code, 204U) << answer->body;
  EXPECT_TRUE(called(house, "interrupt abc"));
  answer = house.ask({.method = Method::Delete, .path = sandbox_path("/contexts/abc")});
  EXPECT_EQ(answer->code, 204U);
  EXPECT_TRUE(called(house, "delete abc"));
}

TEST(ProcessOutput, GoesOnWhereItStopped) {
  House house;
  fill_output(house);
  auto answer = house.ask(
      {.path = sandbox_path("/processes/4/output"), .query = "stdout_offset=7&stderr_offset=2"});
  EXPECT_TRUE(called(house, "attach 7 2"));
  EXPECT_NE(answer->body.find("id: 6-2\nevent: stdout\n"), std::string::npos) << answer->body;
  EXPECT_NE(answer->body.find("id: 6-15\nevent: exit\n"), std::string::npos) << answer->body;
  EXPECT_FALSE(called(house, "forget"));
  answer = house.ask(
      {.path = sandbox_path("/processes/4/output"), .fields = {{"Last-Event-ID", "10-20"}}});
  EXPECT_TRUE(called(house, "attach 10 20"));
  for (const std::string bad : {"10", "-", "a-b", "1-2-3", "-1-2"}) {
    EXPECT_EQ(
        house
            .ask({.path = sandbox_path("/processes/4/output"), .fields = {{"Last-Event-ID", bad}}})
            ->code,
        400U)
        << bad;
  }
  EXPECT_EQ(house.ask({.path = sandbox_path("/processes/0/output")})->code, 404U);
  EXPECT_EQ(house.ask({.path = sandbox_path("/processes/x")})->code, 404U);
}

TEST(Watch, ANameCannotForgeAnEvent) {
  House house;
  const auto answer = house.ask({.path = sandbox_path("/watch/src"), .query = "recursive=true"});
  EXPECT_TRUE(answer->body.starts_with("retry: 2000\n\nevent: ready\ndata: {}\n\nevent: change\n"));
  EXPECT_EQ(answer->body.find("\nevent: exit"), std::string::npos) << answer->body;
}

TEST(Events, HaveTheirSequenceAsId) {
  House house;
  const auto answer = house.ask({.path = "/api/v1/events", .query = "after=5"});
  EXPECT_TRUE(called(house, "events 5"));
  EXPECT_NE(answer->body.find("id: 12\nevent: sandbox.created\n"), std::string::npos);
  (void)house.ask({.path = "/api/v1/events", .fields = {{"Last-Event-ID", "11"}}});
  EXPECT_TRUE(called(house, "events 11"));
  EXPECT_EQ(house.ask({.path = "/api/v1/events", .query = "sandbox=" + fake::kForeignId})->code,
            404U);
}

TEST(Events, AQuietStreamShowsThatItLives) {
  House house;
  house.fleet.output_ends = false;
  house.options.keep_alive = seconds(0);
  Exchange exchange;
  House::fill(exchange, {.path = sandbox_path("/processes/4/output")});
  exchange.takes_bytes_max = 40;  // a comment that cannot be sent any more ends the stream
  house.run(exchange);
  EXPECT_EQ(exchange.code, 200U);
  EXPECT_EQ(exchange.body, "retry: 2000\n\n: still here\n\n: still here\n\n");
  EXPECT_FALSE(exchange.ended);
}

TEST(Streams, AreCounted) {
  House house;
  house.options.streams_max = 0;
  EXPECT_EQ(house.ask({.path = "/api/v1/events"})->code, 429U);
  House other;
  other.options.streams_per_caller_max = 0;
  const auto answer = other.ask({.path = sandbox_path("/watch/x")});
  EXPECT_EQ(answer->code, 429U);
  EXPECT_TRUE(other.fleet.calls.empty());
}

Exchange& socket_to(Exchange& exchange, std::string_view path, std::string query = {}) {
  House::fill(exchange, {.path = sandbox_path(path),
                         .query = std::move(query),
                         .token = "",
                         .fields = {{"Upgrade", "websocket"},
                                    {"Sec-WebSocket-Protocol", "caisson, caisson.token.use"}}});
  exchange.socket.stays = true;
  return exchange;
}

TEST(ExecSocket, StreamsBothWays) {
  House house;
  fill_output(house);
  Exchange exchange;
  socket_to(exchange, "/exec");
  exchange.socket.incoming.push_back({true, R"({"command":"cat"})"});
  house.run(exchange);
  EXPECT_EQ(exchange.code, 101U);
  EXPECT_EQ(exchange.protocol, "caisson");
  const auto& sent = exchange.socket.sent;
  ASSERT_EQ(sent.size(), 4U);
  EXPECT_EQ(sent[0].bytes, R"({"type":"start","process":4,"pid":0})");
  EXPECT_EQ(sent[1].bytes, "\1hello\n");
  EXPECT_FALSE(sent[1].text);
  EXPECT_EQ(sent[2].bytes.front(), '\2');
  EXPECT_TRUE(sent[3].bytes.starts_with(R"({"type":"exit","exit_code":3)"));
  EXPECT_EQ(exchange.socket.closed, 1000);
}

TEST(ExecSocket, ObeysAndDiesWithItsCaller) {
  House house;
  house.fleet.output_ends = false;
  Exchange exchange;
  socket_to(exchange, "/exec");
  exchange.socket.stays = false;
  exchange.socket.incoming = {{true, R"({"argv":["cat"]})"},
                              {false, std::string("\0in", 3)},
                              {true, R"({"type":"signal","signal":"SIGINT"})"},
                              {true, R"({"type":"resize","rows":5,"cols":6})"},
                              {true, R"({"type":"close_stdin"})"}};
  house.run(exchange);
  EXPECT_TRUE(called(house, "input in"));
  EXPECT_TRUE(called(house, "signal 2"));
  EXPECT_TRUE(called(house, "resize 5 6"));
  EXPECT_TRUE(called(house, "input |"));
  EXPECT_TRUE(called(house, "signal 9 tree"));
}

TEST(ExecSocket, SaysWhatItDoesNotUnderstand) {
  const std::vector<http::Message> bad_first[] = {
      {{false, "x"}}, {{true, "{"}}, {{true, "{}"}}, {{true, R"({"command":"x","stdin":"y"})"}}};
  for (const auto& messages : bad_first) {
    House house;
    Exchange exchange;
    socket_to(exchange, "/exec");
    exchange.socket.incoming.assign(messages.begin(), messages.end());
    house.run(exchange);
    ASSERT_EQ(exchange.socket.sent.size(), 1U);
    EXPECT_TRUE(exchange.socket.sent[0].bytes.starts_with(R"({"type":"error","error":{)"));
    EXPECT_EQ(exchange.socket.closed, 1008);
    EXPECT_FALSE(called(house, "start"));
  }
  for (const http::Message& later : {http::Message{false, "\1x"}, http::Message{true, "{}"},
                                     http::Message{true, R"({"type":"signal","signal":"NO"})"}}) {
    House house;
    house.fleet.output_ends = false;
    Exchange exchange;
    socket_to(exchange, "/exec");
    exchange.socket.incoming = {{true, R"({"command":"x"})"}, later};
    house.run(exchange);
    EXPECT_EQ(exchange.socket.closed, 1008);
    EXPECT_TRUE(called(house, "signal 9 tree"));
  }
}

TEST(ExecSocket, IsNoPage) {
  House house;
  const auto answer = house.ask({.path = sandbox_path("/exec")});
  EXPECT_EQ(answer->code, 426U);
  EXPECT_EQ(answer->field("Upgrade"), "websocket");
}

TEST(Terminal, OutlivesItsCaller) {
  House house;
  house.fleet.output_ends = false;
  Exchange exchange;
  socket_to(exchange, "/terminal", "rows=10&cols=20&term=vt100");
  exchange.socket.stays = false;
  exchange.socket.incoming = {{false, "ls\r"}, {true, R"({"type":"resize","rows":5,"cols":6})"}};
  house.run(exchange);
  EXPECT_TRUE(called(house, "start"));
  EXPECT_TRUE(called(house, "input ls\r"));
  EXPECT_TRUE(called(house, "resize 5 6"));
  EXPECT_FALSE(called(house, "signal 9 tree"));
  EXPECT_FALSE(called(house, "forget"));
  ASSERT_EQ(house.fleet.executed.environment.size(), 1U);
  EXPECT_EQ(house.fleet.executed.environment[0].second, "vt100");

  Exchange again;
  socket_to(again, "/terminal", "process=4");
  again.socket.stays = false;
  house.fleet.calls.clear();
  house.run(again);
  EXPECT_FALSE(called(house, "start"));
  EXPECT_TRUE(called(house, "attach 0 0"));
  for (const std::string bad :
       {"rows=0", "cols=1001", "process=0", "process=4&command=x", "term=a b", "command="}) {
    Exchange refused;
    socket_to(refused, "/terminal", bad);
    house.run(refused);
    EXPECT_EQ(refused.code, 400U) << bad;
  }
}

TEST(Processes, InputWaitSignalRemove) {
  House house;
  EXPECT_EQ(house
                .ask({.method = Method::Post,
                      .path = sandbox_path("/processes/4/input"),
                      .query = "close=true",
                      .body = "abc",
                      .json = false})
                ->code,
            204U);
  EXPECT_TRUE(called(house, "input abc"));
  EXPECT_TRUE(called(house, "input |"));
  EXPECT_EQ(
      house.ask({.path = sandbox_path("/processes/4/wait"), .query = "timeout_seconds=1.5"})->code,
      200U);
  EXPECT_TRUE(called(house, "wait 1500"));
  for (const std::string bad : {"-1", "3601", "nan", "inf", "1x", ""}) {
    EXPECT_EQ(
        house.ask({.path = sandbox_path("/processes/4/wait"), .query = "timeout_seconds=" + bad})
            ->code,
        400U)
        << bad;
  }
  for (const std::string bad : {"{}", R"({"signal":"NONE"})", R"({"signal":0})", R"({"signal":65})",
                                R"({"signal":1.5})", R"({"signal":true})"}) {
    EXPECT_EQ(
        house
            .ask({.method = Method::Post, .path = sandbox_path("/processes/4/signal"), .body = bad})
            ->code,
        400U)
        << bad;
  }
  EXPECT_EQ(house.ask({.method = Method::Delete, .path = sandbox_path("/processes/4")})->code,
            204U);
  EXPECT_TRUE(called(house, "signal 9 tree"));
  EXPECT_TRUE(called(house, "forget"));
}

}  // namespace
}  // namespace caisson::rest
