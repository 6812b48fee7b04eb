#include "control/tools.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "control/open_fleet.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

json::object object(std::string_view text) { return json::parse(text).as_object(); }

template <class T>
std::string field(const Result<T>& result) {
  return result ? "(no error)" : result.error().field;
}

TEST(Tools, WrongArgumentsAreNamed) {
  EXPECT_EQ(field(shell_exec_arguments(object("{}"))), "arguments.command");
  EXPECT_EQ(field(shell_exec_arguments(object(R"({"command": 3})"))), "arguments.command");
  EXPECT_EQ(field(shell_exec_arguments(object(R"({"command": null})"))), "arguments.command");
  EXPECT_EQ(field(shell_exec_arguments(object(R"({"command": "a", "cmd": 1})"))), "arguments.cmd");
  EXPECT_EQ(field(shell_exec_arguments(object(R"({"command": "a", "timeout_seconds": "5"})"))),
            "arguments.timeout_seconds");
  EXPECT_EQ(field(shell_exec_arguments(object(R"({"command": "a", "env": ["A=1"]})"))),
            "arguments.env");
  EXPECT_EQ(field(shell_exec_arguments(object(R"({"command": "a", "env": {"A": 1}})"))),
            "arguments.env.A");
  EXPECT_EQ(field(file_read_arguments(object("{}"))), "arguments.path");
  EXPECT_EQ(field(file_write_arguments(object(R"({"path": "a"})"))), "arguments.content");
  EXPECT_EQ(
      field(file_write_arguments(object(R"({"path": "a", "content": "b", "encoding": "latin1"})"))),
      "arguments.encoding");
  EXPECT_EQ(
      field(file_write_arguments(object(R"({"path": "a", "content": "!", "encoding": "base64"})"))),
      "arguments.content");
  EXPECT_EQ(field(file_list_arguments(object(R"({"recursive": 1})"))), "arguments.recursive");
}

TEST(Tools, TextHasALimit) {
  json::object arguments{{"command", std::string(kCommandBytesMax + 1, 'x')}};
  const auto wish = shell_exec_arguments(arguments);
  ASSERT_FALSE(wish);
  EXPECT_EQ(wish.error().code, Errc::TooLarge);
}

TEST(Tools, ReadsWhatIsGiven) {
  const auto wish = shell_exec_arguments(object(
      R"({"command": "ls", "timeout_seconds": 5, "workdir": "src", "env": {"A": "1"}, "stdin": "x"})"));
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->command, "ls");
  EXPECT_EQ(wish->timeout_seconds, 5.0);
  EXPECT_EQ(wish->workdir, "src");
  EXPECT_EQ(wish->input, "x");
  EXPECT_EQ(
      file_write_arguments(object(R"({"path": "a", "content": "Zm8=", "encoding": "base64"})"))
          ->content,
      "fo");
  EXPECT_EQ(file_list_arguments(object("{}"))->path, "/workspace");
}

TEST(Tools, OutputThatIsNoTextComesAsBase64Too) {
  ExecOutcome outcome;
  outcome.out = "a\xff";
  outcome.err = "plain";
  outcome.exit_code = 137;
  outcome.signal = 9;
  outcome.err_lost = 5;
  const json::object answer = shell_exec_answer(outcome);
  EXPECT_EQ(answer.at("stdout"), "a\xEF\xBF\xBD");
  EXPECT_EQ(answer.at("stdout_base64"), "Yf8=");
  EXPECT_FALSE(answer.contains("stderr_base64"));
  EXPECT_EQ(answer.at("signal"), 9);
  EXPECT_EQ(answer.at("stdout_truncated"), false);
  EXPECT_EQ(answer.at("stderr_truncated"), true);
}

TEST(Tools, FilesThatAreNoTextComeAsBase64) {
  EXPECT_EQ(file_read_answer("/workspace/a", "text").at("encoding"), "utf-8");
  const json::object answer = file_read_answer("/workspace/a", "\xff");
  EXPECT_EQ(answer.at("encoding"), "base64");
  EXPECT_EQ(answer.at("content"), "/w==");
}

TEST(Tools, ListsAreCutAndNamesAreText) {
  engine::Listing listing;
  listing.entries.resize(kToolEntriesMax + 1);
  listing.entries.front().name = "n\xff";
  listing.entries.front().type = wire::EntryType::Link;
  listing.entries.front().target = "t";
  const json::object answer = file_list_answer("/", listing);
  EXPECT_EQ(answer.at("entries").as_array().size(), kToolEntriesMax);
  EXPECT_EQ(answer.at("truncated"), true);
  const json::object& first = answer.at("entries").as_array().front().as_object();
  EXPECT_EQ(first.at("path"), "/n\xEF\xBF\xBD");
  EXPECT_EQ(first.at("type"), "link");
  EXPECT_EQ(first.at("target"), "t");
}

TEST(Tools, EachHasASchema) {
  const json::array schemas = tool_schemas();
  ASSERT_EQ(schemas.size(), all_tools().size());
  for (const json::value& one : schemas) {
    EXPECT_TRUE(check_tool_name(std::string(one.at("name").as_string()), "tool"));
    EXPECT_EQ(one.at("arguments").at("type"), "object");
  }
  const auto unknown = check_tool_name("rm", "tool");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("shell_exec"), std::string::npos);
}

}  // namespace
}  // namespace caisson::control
