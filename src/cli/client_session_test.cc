#include "cli/client_session.h"

#include <gtest/gtest.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_create.h"
#include "cli/client_json.h"
#include "cli/fake_remote_test.h"

namespace caisson::cli {
namespace {

constexpr const char* kOne = "aaaaaaaaaaaaaaaaaaaaaaaaaa";
constexpr const char* kTwo = "aaaaaabbbbbbbbbbbbbbbbbbbb";
constexpr const char* kThree = "cccccccccccccccccccccccccc";

Answer refusal(unsigned status, const std::string& body) {
  Answer answer;
  answer.status = status;
  answer.body = body;
  return answer;
}

boost::json::value listing() {
  return *parse_json(R"({"sandboxes": [
    {"id": "aaaaaaaaaaaaaaaaaaaaaaaaaa", "name": "build"},
    {"id": "aaaaaabbbbbbbbbbbbbbbbbbbb", "name": ""},
    {"id": "cccccccccccccccccccccccccc", "name": "aaaaaaa"},
    {"id": "../../tokens", "name": "evil"}]})");
}

TEST(PickSandbox, NamesAndUnambiguousBeginnings) {
  EXPECT_EQ(*pick_sandbox(listing(), "build"), kOne);
  EXPECT_EQ(*pick_sandbox(listing(), "aaaaaab"), kTwo);
  EXPECT_EQ(*pick_sandbox(listing(), "cccccc"), kThree);
  EXPECT_EQ(*pick_sandbox(listing(), "aaaaaaa"), kThree);  // a name goes before a beginning
}

TEST(PickSandbox, WhatCouldMeanTwoOrNoneIsRefused) {
  EXPECT_NE(pick_sandbox(listing(), "aaaaaa").error().message.find("2 sandboxes"),
            std::string::npos);
  EXPECT_EQ(pick_sandbox(listing(), "ccccc").error().code, Errc::NotFound);  // too short
  EXPECT_EQ(pick_sandbox(listing(), "").error().code, Errc::NotFound);
  // An id that would leave its place in the address of the next request is no id.
  EXPECT_EQ(pick_sandbox(listing(), "evil").error().code, Errc::NotFound);
  EXPECT_EQ(pick_sandbox(boost::json::value("?"), "build").error().code, Errc::NotFound);
}

TEST(Session, AWholeIdAsksNobody) {
  auto remote = std::make_unique<FakeRemote>();
  FakeRemote& fake = *remote;
  const Session session("ls", std::move(remote));
  EXPECT_EQ(*session.resolve(kOne), kOne);
  EXPECT_TRUE(fake.calls.empty());
  fake.say(200, R"({"sandboxes": []})");
  EXPECT_FALSE(session.resolve("build"));
  EXPECT_EQ(fake.calls, std::vector<std::string>{"GET /api/v1/sandboxes"});
}

TEST(Session, AServersErrorIsOneLineWithItsRequest) {
  const Error error = error_of(refusal(
      403,
      R"({"error": {"code": "Denied", "message": "no\n\u001b[1mway", "request_id": "0123456789abcdef"}})"));
  EXPECT_EQ(error.code, Errc::Denied);
  EXPECT_EQ(error.message, "no??[1mway (request 0123456789abcdef)");
  EXPECT_EQ(exit_status_of(error), kExitFailed);
  EXPECT_EQ(error_of(refusal(502, "<html>")).message, "the server answered with status 502");
  EXPECT_NE(error_of(refusal(401, "{}")).message.find("--token"), std::string::npos);
}

TEST(Session, NobodyAnsweringHasItsOwnStatus) {
  EXPECT_EQ(exit_status_of(Error{Errc::LauncherGone, "connect", 111}), kExitUnreachable);
  // The server is there, its launcher is not.
  EXPECT_EQ(exit_status_of(error_of(refusal(503, "{}"))), kExitFailed);
}

std::expected<CreateOptions, int> create(std::vector<std::string> words) {
  words.insert(words.begin(), "create");
  std::vector<char*> args;
  for (std::string& word : words) args.push_back(word.data());
  return parse_create_options(args);
}

TEST(CreateOptions, FlagsBecomeTheBody) {
  const auto options = create({"--memory",
                               "512m",
                               "--disk",
                               "1g",
                               "--cpus",
                               "0.5",
                               "--pids",
                               "9",
                               "--timeout",
                               "1h",
                               "--idle",
                               "30s",
                               "--profile",
                               "p",
                               "--tools",
                               "shell_exec,file_read",
                               "--env",
                               "A=b=c",
                               "--env",
                               "E=",
                               "--label",
                               "team=red",
                               "--name",
                               "n",
                               "--writable-root",
                               "--user",
                               "7",
                               "--image",
                               "host",
                               "--workdir",
                               "/w",
                               "--cpu-seconds",
                               "5"});
  ASSERT_TRUE(options);
  EXPECT_EQ(boost::json::value(options->body), *parse_json(R"({
    "profile": "p", "name": "n", "image": "host", "workdir": "/w", "user": 7,
    "tools": ["shell_exec", "file_read"], "filesystem": {"root": "writable"},
    "resource_limits": {"cpu": 0.5, "memory_mb": 512.0, "disk_mb": 1024.0, "processes": 9,
                        "cpu_seconds": 5.0, "timeout_seconds": 3600.0, "idle_seconds": 30.0},
    "env": {"A": "b=c", "E": ""}, "labels": {"team": "red"}})"));
  EXPECT_EQ(create({})->body, boost::json::object());
  EXPECT_TRUE(create({"--tools", ""})->body.at("tools").as_array().empty());
}

TEST(CreateOptions, FilesHaveAKindAndAPlace) {
  const auto options =
      create({"--snapshot", "good", "--storage", "disk", "--persistent", "--checkpoint",
              "each-call", "--volume", "cache:/var/cache:ro", "--volume", "data:/data"});
  ASSERT_TRUE(options);
  EXPECT_EQ(boost::json::value(options->body), *parse_json(R"({
    "snapshot": "good", "storage": "disk", "persistent": true, "checkpoint": "each_call",
    "volumes": [{"name": "cache", "path": "/var/cache", "read_only": true},
                {"name": "data", "path": "/data", "read_only": false}]})"));
}

TEST(CreateOptions, WrongWordsAreUsageErrors) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--memory", "much"},
                                             {"--memory", "unlimited"},
                                             {"--cpus", "x"},
                                             {"--cpus", "-1"},
                                             {"--pids", "1.5"},
                                             {"--timeout", "soon"},
                                             {"--env", "A"},
                                             {"--label", "=x"},
                                             {"--file", "x"},
                                             {"--file", "a=/no/such/file"},
                                             {"--user", "root"},
                                             {"--storage", "ssd"},
                                             {"--checkpoint", "each_call"},
                                             {"--volume", "cache"},
                                             {"--volume", ":/cache"},
                                             {"--volume", "cache:here"},
                                             {"--volume", "cache::ro"},
                                             {"--no-such"}}) {
    const auto options = create(words);
    ASSERT_FALSE(options) << words[0];
    EXPECT_EQ(options.error(), kExitUsage) << words[0];
  }
}

}  // namespace
}  // namespace caisson::cli
