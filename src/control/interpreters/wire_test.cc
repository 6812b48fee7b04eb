#include "control/interpreters/wire.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace caisson::control::interpreters {
namespace {

std::string said(Said kind, std::uint8_t stream, std::uint32_t id, const std::string& payload) {
  std::string out = frame(static_cast<Ask>(kind), id, payload);
  out[5] = static_cast<char>(stream);
  return out;
}

TEST(InterpreterWire, FramesComeInAnyPieces) {
  const std::string bytes = said(Said::Output, 1, 7, "hello") + said(Said::Output, 2, 7, "x") +
                            said(Said::Closed, 0, 9, "{}");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.feed(std::string_view(bytes).substr(at, piece));
      for (auto next = reader.next(); next && *next; next = reader.next()) frames.push_back(**next);
    }
    ASSERT_EQ(frames.size(), 3U) << piece;
    EXPECT_EQ(frames[0], (Frame{Said::Output, 1, 7, "hello"}));
    EXPECT_EQ(frames[1], (Frame{Said::Output, 2, 7, "x"}));
    EXPECT_EQ(frames[2], (Frame{Said::Closed, 0, 9, "{}"}));
    EXPECT_EQ(reader.held(), 0U);
  }
}

// What does not fit is refused by its head, before any of its payload is waited for.
TEST(InterpreterWire, WhatIsNoFrameIsRefusedByItsHead) {
  const std::string good = said(Said::Output, 1, 7, "hello");
  const auto refused = [&good](std::size_t at, char value) {
    std::string bytes = good.substr(0, kHeadBytes);
    bytes[at] = value;
    FrameReader reader;
    reader.feed(bytes);
    const auto next = reader.next();
    return !next && next.error().code == Errc::Protocol;
  };
  EXPECT_TRUE(refused(2, 2));  // 128 KiB
  EXPECT_TRUE(refused(3, 1));  // 16 MiB
  EXPECT_TRUE(refused(4, 0));  // no kind
  EXPECT_TRUE(refused(4, 7));  // none of ours
  EXPECT_TRUE(refused(5, 0));  // output of no stream
  EXPECT_TRUE(refused(5, 3));  // nor of a third
  EXPECT_TRUE(refused(0, 0));  // output of nothing
  EXPECT_TRUE(refused(6, 1));  // what must be zero
  EXPECT_TRUE(refused(7, 1));
  std::string other = said(Said::Done, 1, 7, "{}");
  FrameReader reader;
  reader.feed(other);
  EXPECT_FALSE(reader.next());
}

TEST(InterpreterWire, GuestGarbageIsRefused) {
  FrameReader reader;
  reader.feed("Traceback (most recent call last):\n");
  const auto next = reader.next();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Errc::Protocol);
}

// JSON has no infinity: our own answer could not be read.
TEST(InterpreterWire, ANumberThatIsTooLargeIsLeftOut) {
  const std::string huge = std::string(400, '9');
  CodeOutcome outcome;
  const auto read =
      parse_answer(R"({"value": null, "truncated": false, "error": null, "outputs": [)"
                   R"({"main": false, "data": {"application/json": [1e999]}},)"
                   R"({"main": true, "data": {"text/plain": "2", "application/json": {"a": )" +
                       huge + "}}}]}",
                   outcome);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(outcome.outputs_truncated);
  ASSERT_EQ(outcome.outputs.size(), 1U);
  EXPECT_EQ(outcome.outputs[0].data, (boost::json::object{{"text/plain", "2"}}));
}

TEST(InterpreterWire, AnAnswerIsRead) {
  CodeOutcome outcome;
  const auto read = parse_answer(
      R"({"value": "2", "truncated": false, "error": {"name": "E", "value": "v", "traceback": "t"},)"
      R"( "outputs": [{"main": true, "data": {"text/plain": "2", "application/json": [1, {"a": null}]}}]})",
      outcome);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(outcome.value, "2");
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->traceback, "t");
  ASSERT_EQ(outcome.outputs.size(), 1U);
  EXPECT_TRUE(outcome.outputs[0].main);
  EXPECT_EQ(outcome.outputs[0].data.at("application/json").as_array().size(), 2U);
}

TEST(InterpreterWire, AnswersThatAreNoneAreRefused) {
  for (const char* text :
       {"", "7", "[]", "{}", R"({"value": 1, "outputs": [], "truncated": false, "error": null})",
        R"({"value": null, "outputs": {}, "truncated": false, "error": null})",
        R"({"value": null, "outputs": [1], "truncated": false, "error": null})",
        R"({"value": null, "outputs": [{"main": true, "data": {}}], "truncated": false})",
        R"({"value": null, "outputs": [], "truncated": 0, "error": null})",
        R"({"value": null, "outputs": [], "truncated": false, "error": {"name": "x"}})",
        R"({"value": "\xff", "outputs": [], "truncated": false})"}) {
    CodeOutcome outcome;
    EXPECT_FALSE(parse_answer(text, outcome)) << text;
  }
}

// Two bytes of text can be forty of a tree.
TEST(InterpreterWire, AnAnswerTakesABoundedMemory) {
  std::string lists = "[";
  while (lists.size() < kCodeResultBytesMax - 4) lists += "[],";
  lists += "0]";
  CodeOutcome outcome;
  const auto read = parse_answer(
      R"({"value": null, "truncated": false, "error": null, "outputs": [{"main": false, "data": {"x": )" +
          lists + "}}]}",
      outcome);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::Protocol);
  EXPECT_FALSE(parse_answer(std::string(200, '['), outcome));
}

TEST(InterpreterWire, EndsAreRead) {
  const auto done =
      parse_done(R"({"us": 1500, "out_lost": 3, "err_lost": 0, "exit_code": 137, "died": true})");
  ASSERT_TRUE(done);
  EXPECT_EQ(done->exit_code, 137);
  EXPECT_TRUE(done->died);
  EXPECT_EQ(done->out_lost, 3U);
  EXPECT_EQ(done->ran, microseconds(1500));
  EXPECT_FALSE(
      parse_done(R"({"us": 1, "out_lost": -3, "err_lost": 0, "exit_code": 0, "died": true})"));
  EXPECT_FALSE(
      parse_done(R"({"us": 1, "out_lost": 0, "err_lost": 0, "exit_code": 4096, "died": true})"));
  EXPECT_FALSE(parse_done("{}"));
}

TEST(InterpreterWire, GreetingsAndOpeningsAreRead) {
  const auto hello = parse_hello(R"({"language": "python", "version": "3.11", "warnings": ["w"]})");
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->warnings, std::vector<std::string>{"w"});
  EXPECT_FALSE(parse_hello(R"({"version": "3.11", "warnings": [1]})"));
  const auto open = parse_opened(R"({"error": null})");
  ASSERT_TRUE(open);
  EXPECT_FALSE(*open);
  const auto closed = parse_opened(R"({"error": "no module"})");
  ASSERT_TRUE(closed);
  EXPECT_EQ(*closed, "no module");
  EXPECT_FALSE(parse_opened("{}"));
}

}  // namespace
}  // namespace caisson::control::interpreters
