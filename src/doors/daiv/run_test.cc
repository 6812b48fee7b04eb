// Commands, archives, patches, and the first files.
#include <gtest/gtest.h>

#include "base/base64.h"
#include "doors/daiv/fakes_test.h"
#include "doors/daiv/output_store.h"

namespace caisson::daiv {
namespace {

using fake::House;
using fake::kId;
using http::Method;

control::ExecOutcome exits(int code) {
  control::ExecOutcome outcome;
  outcome.exit_code = code;
  return outcome;
}

// Says its name; "bad" fails.
control::ExecOutcome echo(const std::string& command, std::string& output) {
  output = command + "\n";
  return exits(command == "bad" ? 3 : 0);
}

TEST(DaivRun, TellsEachCommand) {
  House house;
  house.fleet.on_exec = echo;
  const auto answer =
      house.post("", R"({"commands":["ls","bad",""],"archive":null,"timeout":null})");
  EXPECT_EQ(answer->code, 200U);
  EXPECT_EQ(answer->type, "application/json");
  EXPECT_EQ(answer->body, R"({"results":[{"command":"ls","output":"ls\n","exit_code":0},)"
                          R"({"command":"bad","output":"bad\n","exit_code":3},)"
                          R"({"command":"","output":"\n","exit_code":0}],"patch":null})");
  EXPECT_EQ(house.post("", R"({"commands":[]})")->body, R"({"results":[],"patch":null})");
  const control::ExecWish& exec = house.fleet.execs.at(0);
  EXPECT_EQ(exec.argv.at(0), "/bin/sh");
  EXPECT_EQ(exec.argv.size(), 5U);
  EXPECT_EQ(exec.workdir, "/workspace/repo");
  EXPECT_TRUE(exec.merge_error && exec.keep_background);
  EXPECT_EQ(exec.environment.at(0), std::pair(std::string("HOSTNAME"), kId.substr(0, 12)));
  EXPECT_EQ(exec.environment.at(1),
            std::pair(std::string("HOME"), std::string("/home/daiv-sandbox")));
  EXPECT_EQ(exec.environment.size(), 6U);
}

TEST(DaivRun, FailFastStopsAtTheFirstFailure) {
  House house;
  house.fleet.on_exec = echo;
  const auto answer = house.post("", R"({"commands":["a","bad","c"],"fail_fast":true})");
  EXPECT_EQ(answer->body, R"({"results":[{"command":"a","output":"a\n","exit_code":0},)"
                          R"({"command":"bad","output":"bad\n","exit_code":3}],"patch":null})");
}

TEST(DaivRun, ATimeoutIs124AndTheEnd) {
  House house;
  house.options.command_timeout_seconds = 9;
  house.fleet.on_exec = [](const std::string& command, std::string& output) {
    output = "partial";
    control::ExecOutcome outcome;
    outcome.timed_out = command == "slow";
    return outcome;
  };
  EXPECT_EQ(
      house.post("", R"({"commands":["a","slow","c"],"timeout":5})")->body,
      R"({"results":[{"command":"a","output":"partial","exit_code":0},)"
      R"({"command":"slow","output":"Command timed out after 5s","exit_code":124}],"patch":null})");
  EXPECT_EQ(house.fleet.execs.back().timeout_seconds, 5);
  (void)house.post("", R"({"commands":["a"]})");
  EXPECT_EQ(house.fleet.execs.back().timeout_seconds, 9) << "the server's own";
  (void)house.post("", R"({"commands":["a"],"timeout":0})");
  EXPECT_EQ(house.fleet.execs.back().timeout_seconds, std::nullopt) << "none is none";
  EXPECT_EQ(house.post("", R"({"commands":["a"],"timeout":-1})")->code, 422U);
}

TEST(DaivRun, OutputIsWholeAndLossy) {
  House house;
  std::string all;
  for (int i = 0; i < 200'000; ++i) all += "\xe2\x82\xac\xff";  // 800 kB, far beyond what is held
  house.fleet.on_exec = [&](const std::string&, std::string& output) {
    output = all;
    return exits(0);
  };
  const auto answer = house.post("", R"({"commands":["a","b"]})");
  EXPECT_TRUE(answer->streamed && answer->ended);
  EXPECT_EQ(house.fleet.spools, 1U);
  const auto results = boost::json::parse(answer->body).at("results").as_array();
  for (const auto& one : results) {
    const auto& text = one.at("output").as_string();
    ASSERT_EQ(text.size(), 200'000U * 6);
    EXPECT_EQ(std::string_view(text).substr(600'000, 6), "\xe2\x82\xac\xef\xbf\xbd");
  }
}

TEST(DaivRun, AFullSpoolCutsTheOutputAndTellsIt) {
  House house;
  house.fleet.spool_max = 300'000;
  house.fleet.on_exec = [&](const std::string& command, std::string& output) {
    output = command == "big" ? std::string(400'000, 'x') : command;
    return exits(0);
  };
  const auto answer = house.post("", R"({"commands":["a","big","c"]})");
  EXPECT_EQ(answer->code, 200U);
  const auto results = boost::json::parse(answer->body).at("results").as_array();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[1].at("exit_code"), 137);
  EXPECT_NE(
      std::string_view(results[1].at("output").as_string()).find("[Output cut: the spool is full]"),
      std::string_view::npos);
}

TEST(DaivRun, WhatWasDoneIsNotLost) {
  House house;
  house.fleet.on_exec = [&](const std::string& command, std::string& output) {
    output = command;
    if (command == "a") house.fleet.fails["exec"] = Error{Errc::Denied, "on the blocklist", 0, {}};
    return exits(0);
  };
  EXPECT_EQ(house.post("", R"({"commands":["a","b"]})")->body,
            R"({"results":[{"command":"a","output":"a","exit_code":0},)"
            R"({"command":"b","output":"on the blocklist\n","exit_code":126}],"patch":null})");
  house.fleet.fails["exec"] = Error{Errc::LauncherGone, "away", 0, {}};
  EXPECT_EQ(house.post("", R"({"commands":["a"]})")->code, 503U);
  house.fleet.on_call = [&](const std::string& call) {
    if (call.starts_with("exec")) house.fleet.boxes.clear();
  };
  house.fleet.fails["exec"] = Error{Errc::Gone, "ended", 0, {}};
  EXPECT_EQ(house.post("", R"({"commands":["a"]})")->code, 404U);
}

TEST(DaivRun, ARemovedWorkingFolderIsMadeAgain) {
  House house;
  house.fleet.fails["exec"] = Error{Errc::NotFound, "chdir: No such file", ENOENT, {}};
  house.fleet.on_exec = echo;
  const auto answer = house.post("", R"({"commands":["a"]})");
  EXPECT_EQ(answer->body,
            R"({"results":[{"command":"a","output":"a\n","exit_code":0}],"patch":null})");
  EXPECT_EQ(house.fleet.count("mkdir"), 1U);
}

TEST(DaivRun, CommandsThatNoKernelTakes) {
  House house;
  EXPECT_EQ(house.post("", R"({"commands":["a","\u0000"]})")->code, 422U);
  const std::string longest(control::kCommandBytesMax, 'x');
  EXPECT_EQ(house.post("", "{\"commands\":[\"a\",\"" + longest + "\"]}")->code, 422U);
  EXPECT_EQ(house.fleet.count("exec"), 0U) << "nothing runs before all are judged";
}

TEST(DaivRun, WaitsForItsTurn) {
  House house;
  house.fleet.busy.insert(kId);
  const auto busy = house.post("", R"({"commands":[]})");
  EXPECT_EQ(busy->code, 409U);
  EXPECT_EQ(busy->body, R"({"detail":"Session is busy"})");
  house.fleet.busy.clear();
  EXPECT_EQ(house.post("", R"({"commands":[]})")->code, 200U);
  EXPECT_TRUE(house.fleet.busy.empty()) << "the turn is given back";
}

TEST(DaivRun, ArchivesAndPatches) {
  House house;
  house.fleet.on_exec = echo;
  house.fleet.patch_text = "diff --git a/x b/x\n";
  house.fleet.boxes[kId].labels[std::string(kPatchLabel)] = "1";
  const std::string body = R"({"archive":")" + to_base64("tar bytes") + R"(","commands":["bad"]})";
  EXPECT_EQ(house.post("", body)->body,
            R"({"results":[{"command":"bad","output":"bad\n","exit_code":3}],"patch":")" +
                to_base64("diff --git a/x b/x\n") + R"("})");
  EXPECT_EQ(house.fleet.archive_bytes.at(0), "tar bytes");
  EXPECT_EQ(house.fleet.archives.at(0).path, "/workspace/repo");
  EXPECT_FALSE(house.fleet.archives.at(0).clear);
  EXPECT_TRUE(house.fleet.archives.at(0).baseline);
  EXPECT_TRUE(house.fleet.boxes[kId].labels.contains(std::string(kOlderApiLabel)));
  house.fleet.patch_text.clear();
  EXPECT_NE(house.post("", body)->body.find(R"("patch":null)"), std::string::npos) << "no change";
  house.fleet.fails["patch"] = Error{Errc::Internal, "git failed", 0, {}};
  EXPECT_EQ(
      house.post("", body)->body,
      R"({"results":[{"command":"bad","output":"bad\n","exit_code":3}],"patch":null,"patch_error":"git failed"})");
  const std::size_t patches = house.fleet.count("patch");
  EXPECT_EQ(house.post("", R"({"commands":[]})")->body, R"({"results":[],"patch":null})");
  EXPECT_EQ(house.fleet.count("patch"), patches) << "no archive, no patch";
}

TEST(DaivRun, AnEphemeralSessionIsClearedForAnArchiveOnly) {
  House house;
  house.fleet.boxes[kId].labels[std::string(kEphemeralLabel)] = "1";
  (void)house.post("", R"({"archive":"QQ==","commands":[]})");
  EXPECT_TRUE(house.fleet.archives.at(0).clear);
  EXPECT_FALSE(house.fleet.archives.at(0).baseline);
  for (const std::string nothing : {"\"\"", "\"***\"", "null"})
    EXPECT_EQ(house.post("", R"({"commands":[],"archive":)" + nothing + "}")->code, 200U);
  EXPECT_EQ(house.fleet.archives.size(), 1U);
}

TEST(DaivRun, ArchivesThatAreNone) {
  House house;
  EXPECT_EQ(
      house.post("", R"({"archive":5,"commands":[]})")->body,
      R"({"detail":[{"type":"string_type","loc":["body","archive"],"msg":"Input should be a valid string","input":5}]})");
  EXPECT_EQ(
      house.post("", R"({"archive":"QQ","commands":[]})")->body,
      R"({"detail":[{"type":"base64_decode","loc":["body","archive"],"msg":"Base64 decoding error: 'Incorrect padding'","input":"QQ","ctx":{"error":"Incorrect padding"}}]})");
  EXPECT_TRUE(house.fleet.archives.empty());
  house.fleet.fails["archive"] = Error{Errc::InvalidArgument, "entry '../x' leads outside", 0, {}};
  const auto bad = house.post("", R"({"archive":"QQ==","commands":["a"]})");
  EXPECT_EQ(bad->code, 422U);
  EXPECT_EQ(bad->body, R"({"detail":"archive is invalid: entry '../x' leads outside"})");
  EXPECT_EQ(house.fleet.count("exec"), 0U);
  house.fleet.spool_max = 2;
  EXPECT_EQ(house.post("", R"({"archive":"QUJDRA==","commands":[]})")->code, 413U);
}

TEST(DaivRun, AnArchiveOfFiftyMegabytesTakesNoMemory) {
  House house;
  house.fleet.spool_keeps = false;
  constexpr std::size_t kPieces = 1024;
  const std::string piece = to_base64(std::string(49'152, '\x5a'));
  std::size_t sent = 0;
  fake::Exchange exchange;
  House::fill(exchange, {Method::Post, "/session/" + kId + "/", "{\"archive\":\""});
  exchange.wanted.content_length.reset();
  exchange.source = [&]() -> std::string {
    if (sent < kPieces) return ++sent, piece;
    return sent++ == kPieces ? "\",\"commands\":[]}" : "";
  };
  // Less than the archive: what does not fit is refused, so it was never held.
  house.options.held_bytes_max = house.options.held_per_tenant_max = 1024UL * 1024;
  house.run(exchange);
  EXPECT_EQ(exchange.code, 200U) << exchange.body;
  ASSERT_EQ(house.fleet.archives.size(), 1U);
  EXPECT_EQ(house.fleet.archives[0].archive->size(), kPieces * 49'152);
  EXPECT_LE(house.fleet.largest_write, 32U * 1024);
}

TEST(DaivRun, ACallerWhoLeavesEndsTheWork) {
  House house;
  fake::Exchange exchange;
  House::fill(exchange, {Method::Post, "/session/" + kId + "/", R"({"commands":["a"]})"});
  exchange.hangs_up = true;
  house.fleet.on_exec = echo;
  house.run(exchange);
  EXPECT_TRUE(exchange.closing || exchange.code == 200U);
  EXPECT_TRUE(house.fleet.busy.empty());
}

TEST(OutputStore, KeepsLittleInMemory) {
  fake::Fleet fleet;
  control::Caller caller;
  OutputStore store(fleet, caller);
  boost::asio::io_context io;
  bool good = false;
  auto work = [&]() -> awaitable<void> {
    for (int i = 0; i < 100; ++i)
      (void)co_await store.append(std::string(10'000, static_cast<char>('a' + i % 26)));
    std::string all;
    while (all.size() < store.size()) all += *co_await store.read(all.size(), store.size());
    good = all.size() == 1'000'000 && all[999'999] == 'a' + 99 % 26 && all[10'000] == 'b';
  };
  boost::asio::co_spawn(io, work(), boost::asio::detached);
  io.run();
  EXPECT_TRUE(good);
  EXPECT_TRUE(store.large());
}

// ------------------------------------------------------------------------------------ seed

std::string part(std::string_view name, std::string_view bytes,
                 std::string_view filename = "; filename=\"x.tar\"") {
  return "--B\r\nContent-Disposition: form-data; name=\"" + std::string(name) + "\"" +
         std::string(filename) + "\r\n\r\n" + std::string(bytes) + "\r\n";
}

fake::Ask form(std::string parts) {
  return {Method::Post, "/session/" + kId + "/seed/", std::move(parts) + "--B--\r\n",
          "",           std::string(fake::kKey),      "multipart/form-data; boundary=B"};
}

TEST(DaivSeed, PutsTheRepositoryFirst) {
  House house;
  const auto answer = house.ask(
      form(part("skills_archive", "two") + part("other", "x") + part("repo_archive", "one")));
  EXPECT_EQ(answer->code, 204U) << answer->body;
  ASSERT_EQ(house.fleet.archives.size(), 2U);
  EXPECT_EQ(house.fleet.archives[0].path, "/workspace/repo");
  EXPECT_EQ(house.fleet.archive_bytes[0], "one");
  EXPECT_EQ(house.fleet.archives[1].path, "/workspace/skills");
  EXPECT_EQ(house.fleet.archive_bytes[1], "two");
  EXPECT_FALSE(house.fleet.archives[0].clear);
  const auto again = house.ask(form(part("repo_archive", "one")));
  EXPECT_EQ(again->code, 409U);
  EXPECT_EQ(again->body, R"({"detail":"Session already seeded"})");
  EXPECT_EQ(house.fleet.archives.size(), 2U);
}

TEST(DaivSeed, Refusals) {
  House house;
  constexpr std::string_view kNeither =
      R"({"detail":"At least one of repo_archive or skills_archive must be provided"})";
  EXPECT_EQ(house.ask(form(part("other", "x")))->body, kNeither);
  EXPECT_EQ(house.post("seed/", "{}")->body, kNeither);
  EXPECT_EQ(house.post("seed/", "{}")->code, 422U);
  EXPECT_EQ(
      house.ask(form(part("repo_archive", "text", "")))->body,
      R"({"detail":[{"type":"value_error","loc":["body","repo_archive"],"msg":"Value error, Expected UploadFile, received: <class 'str'>","input":"text","ctx":{"error":{}}}]})");
  EXPECT_EQ(house.ask(form(part("skills_archive", "")))->body,
            R"({"detail":"skills_archive is invalid: empty file"})");
  house.fleet.fails["archive"] = Error{Errc::InvalidArgument, "no archive", 0, {}};
  const auto bad = house.ask(form(part("repo_archive", "x")));
  EXPECT_EQ(bad->code, 422U);
  EXPECT_EQ(bad->body, R"({"detail":"repo_archive is invalid: no archive"})");
  EXPECT_FALSE(house.fleet.boxes[kId].labels.contains(std::string(kSeededLabel)));
  house.fleet.fails.clear();
  house.fleet.fails["labels"] = Error{Errc::Exhausted, "full", 0, {}};
  EXPECT_EQ(house.ask(form(part("repo_archive", "x")))->code, 500U);
  fake::Ask broken = form("");
  broken.body = "--B\r\nnonsense";
  EXPECT_EQ(house.ask(broken)->code, 400U);
  fake::Ask unknown = form(part("repo_archive", "x"));
  unknown.path = "/session/nothing/seed/";
  EXPECT_EQ(house.ask(unknown)->code, 404U);
}

}  // namespace
}  // namespace caisson::daiv
