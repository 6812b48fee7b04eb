#include "egress/budget/usage_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "egress/budget/json_walk.h"
#include "policy/capability.h"

namespace caisson::egress {
namespace {

UsageReport read(Provider provider, Framing framing, std::string_view text, std::size_t step = 0) {
  UsageReader reader(provider, framing);
  if (step == 0) step = std::max<std::size_t>(text.size(), 1);
  for (std::size_t at = 0; at < text.size(); at += step) reader.feed(text.substr(at, step));
  return reader.finish(77);
}

// However the bytes are cut, the answer is the same.
UsageReport read_any(Provider provider, Framing framing, std::string_view text) {
  const UsageReport whole = read(provider, framing, text);
  for (const std::size_t step : {1U, 2U, 3U, 7U, 64U})
    EXPECT_EQ(read(provider, framing, text, step), whole) << step;
  return whole;
}

UsageReport body(Provider provider, std::string_view text) {
  return read_any(provider, Framing::Json, text);
}
UsageReport stream(Provider provider, std::string_view text) {
  return read_any(provider, Framing::EventStream, text);
}

// --- what must not be free ---

TEST(UsageReader, AnAnswerThatCannotBeReadIsChargedByItsBytes) {
  for (const std::string_view text :
       {"<html>", "{", "{\"usage\":", "[]", "{}", "null", "{\"usage\":null}",
        "{\"usage\":{\"prompt_tokens\":1}}", "{\"usage\":[{\"prompt_tokens\":1}]}",
        "{\"usage\":{\"prompt_tokens\":\"1\",\"completion_tokens\":\"2\"}}",
        "{\"x\":{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}}",
        "[{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}]",
        "{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}} {}"}) {
    const UsageReport report = body(Provider::OpenAi, text);
    EXPECT_EQ(report.reading, Reading::Unreadable) << text;
    EXPECT_GE(report.usage.output, tokens_of_bytes(text.size())) << text;
    EXPECT_GE(report.usage.input, 1) << text;
  }
  EXPECT_EQ(body(Provider::OpenAi, "{}").usage, (TokenUsage{.input = 77, .output = 1}));
  const UsageReport nothing = body(Provider::OpenAi, "");
  EXPECT_EQ(nothing.reading, Reading::Unreadable);
  EXPECT_EQ(nothing.usage.input, 77);
}

TEST(UsageReader, NumbersThatNobodyWouldSayAreNotBelieved) {
  for (const char* number : {"-1", "1e300", "99999999999999999999", "-0.5"}) {
    const std::string text =
        "{\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":" + std::string(number) + "}}";
    const UsageReport report = body(Provider::OpenAi, text);
    EXPECT_EQ(report.reading, Reading::Unreadable) << number;
    EXPECT_GE(report.usage.output, tokens_of_bytes(text.size())) << number;
    EXPECT_LE(report.usage.output, policy::kTokensMax);
  }
}

TEST(UsageReader, TooDeepIsUnreadableAndLongKeysMatchNothing) {
  const std::string deep(kJsonDepthMax + 1, '[');
  EXPECT_EQ(body(Provider::OpenAi, deep + std::string(kJsonDepthMax + 1, ']')).reading,
            Reading::Unreadable);
  const std::string key = "usage" + std::string(kJsonKeyBytesMax, 'x');
  const std::string text = "{\"" + key + "\":{\"prompt_tokens\":1,\"completion_tokens\":1}}";
  EXPECT_EQ(body(Provider::OpenAi, text).reading, Reading::Unreadable);
}

TEST(UsageReader, ACutStreamIsChargedByItsText) {
  const std::string one = "data: {\"choices\":[{\"delta\":{\"content\":\"12345678\"}}]}\n\n";
  const UsageReport report = stream(Provider::OpenAi, one + one + "data: {\"choi");
  EXPECT_EQ(report.reading, Reading::Incomplete);
  EXPECT_EQ(report.usage, (TokenUsage{.input = 77, .output = 4}));
  // Without include_usage the stream ends well and still says nothing.
  const UsageReport silent = stream(Provider::OpenAi, one + "data: [DONE]\n\n");
  EXPECT_EQ(silent.reading, Reading::Incomplete);
  EXPECT_EQ(silent.usage, (TokenUsage{.input = 77, .output = 2}));
}

TEST(UsageReader, AStreamOfSomethingElseIsChargedByItsBytes) {
  for (const std::string_view text : {"hello\n\n", "data: {not json}\n\n", "data: [DONE]x\n\n",
                                      "data: {}{}\n\n", ": only comments\n\n"}) {
    const UsageReport report = stream(Provider::OpenAi, text);
    EXPECT_EQ(report.reading, Reading::Unreadable) << text;
    EXPECT_EQ(report.usage.output, tokens_of_bytes(text.size())) << text;
  }
}

// --- what must be read ---

TEST(UsageReader, OpenAiBodies) {
  EXPECT_EQ(body(Provider::OpenAi,
                 R"({"id":"x","object":"chat.completion","choices":[{"message":{"content":
                 "{\"usage\":{\"prompt_tokens\":9999}}"}}],"usage":{"prompt_tokens":100,
                 "completion_tokens":20,"total_tokens":120,
                 "prompt_tokens_details":{"cached_tokens":60,"audio_tokens":0},
                 "completion_tokens_details":{"reasoning_tokens":5}}})"),
            (UsageReport{Reading::Exact, {.input = 40, .cached_input = 60, .output = 20}}));
  EXPECT_EQ(body(Provider::OpenAi,
                 R"({"object":"response","output":[],"usage":{"input_tokens":36,
                 "input_tokens_details":{"cached_tokens":6},"output_tokens":87,
                 "total_tokens":123}})"),
            (UsageReport{Reading::Exact, {.input = 30, .cached_input = 6, .output = 87}}));
  EXPECT_EQ(body(Provider::OpenAi,
                 R"({"object":"list","data":[{"embedding":[0.1,-2e-3]}],
                 "usage":{"prompt_tokens":8,"total_tokens":8}})"),
            (UsageReport{Reading::Exact, {.input = 8}}));
  // What the model thought is in the total only.
  EXPECT_EQ(body(Provider::OpenAi,
                 R"({"usage":{"prompt_tokens":8,"completion_tokens":2,"total_tokens":50}})"),
            (UsageReport{Reading::Exact, {.input = 8, .output = 42}}));
  // More cached than there was input: no negative number comes of it.
  EXPECT_EQ(body(Provider::OpenAi,
                 R"({"usage":{"prompt_tokens":8,"completion_tokens":2,
                 "prompt_tokens_details":{"cached_tokens":80}}})"),
            (UsageReport{Reading::Exact, {.cached_input = 8, .output = 2}}));
}

TEST(UsageReader, AnthropicBody) {
  EXPECT_EQ(body(Provider::Anthropic,
                 R"({"type":"message","content":[{"type":"text","text":"hi"}],"usage":{
                 "input_tokens":10,"cache_creation_input_tokens":200,
                 "cache_read_input_tokens":3000,"output_tokens":40,
                 "cache_creation":{"ephemeral_5m_input_tokens":200},"service_tier":"standard"}})"),
            (UsageReport{Reading::Exact,
                         {.input = 10, .cached_input = 3000, .cache_write = 200, .output = 40}}));
}

TEST(UsageReader, OpenAiChatStreamTellsInItsLastEvent) {
  EXPECT_EQ(stream(Provider::OpenAi,
                   ": keep-alive\n\n"
                   "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],"
                   "\"usage\":null}\n\n"
                   "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}],\"usage\":null}\n\n"
                   "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12,"
                   "\"total_tokens\":21}}\n\n"
                   "data: [DONE]\n\n"),
            (UsageReport{Reading::Exact, {.input = 9, .output = 12}}));
}

TEST(UsageReader, OpenAiResponsesStream) {
  EXPECT_EQ(stream(Provider::OpenAi,
                   "event: response.output_text.delta\n"
                   "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n"
                   "event: response.completed\n"
                   "data: {\"type\":\"response.completed\",\"response\":{\"output\":[],"
                   "\"usage\":{\"input_tokens\":5,\"output_tokens\":6,\"total_tokens\":11}}}\n\n"),
            (UsageReport{Reading::Exact, {.input = 5, .output = 6}}));
}

constexpr std::string_view kAnthropicStart =
    "event: message_start\r\n"
    "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,"
    "\"cache_read_input_tokens\":7,\"output_tokens\":1}}}\r\n\r\n"
    "event: content_block_delta\r\n"
    "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\","
    "\"text\":\"Hello world!\"}}\r\n\r\n";

TEST(UsageReader, AnthropicStreamAddsUp) {
  const std::string end =
      "event: message_delta\r\n"
      "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},"
      "\"usage\":{\"output_tokens\":15}}\r\n\r\n"
      "event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n";
  EXPECT_EQ(stream(Provider::Anthropic, std::string(kAnthropicStart) + end),
            (UsageReport{Reading::Exact, {.input = 25, .cached_input = 7, .output = 15}}));
  // Cut before the end: its input is known, its output is counted.
  EXPECT_EQ(stream(Provider::Anthropic, kAnthropicStart),
            (UsageReport{Reading::Incomplete, {.input = 25, .cached_input = 7, .output = 3}}));
}

TEST(UsageReader, LinesMayEndInThreeWaysAndDataMayHaveMoreThanOne) {
  for (const std::string_view end : {"\n", "\r\n", "\r"}) {
    std::string text;
    for (const std::string_view line :
         {"data:{\"usage\":{\"prompt_tokens\":1,", "data: \"completion_tokens\":2}}", "",
          "data: [DONE]", ""}) {
      text += std::string(line) + std::string(end);
    }
    EXPECT_EQ(stream(Provider::OpenAi, text),
              (UsageReport{Reading::Exact, {.input = 1, .output = 2}}));
  }
  // The last event lacks its empty line.
  EXPECT_EQ(stream(Provider::OpenAi,
                   "data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n"
                   "data: [DONE]")
                .reading,
            Reading::Exact);
}

TEST(UsageReader, OutputIsCountedWhileItStreams) {
  UsageReader reader(Provider::OpenAi, Framing::EventStream);
  EXPECT_EQ(reader.output_tokens_seen(), 0);
  reader.feed("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n");
  EXPECT_EQ(reader.output_tokens_seen(), 0) << "nothing was said yet";
  for (int i = 0; i < 3; ++i) {
    reader.feed("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
    EXPECT_EQ(reader.output_tokens_seen(), i + 1) << "one token for each event at least";
  }
  reader.feed("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"");
  const std::string text(4000, 'x');
  reader.feed(text);
  EXPECT_GE(reader.output_tokens_seen(), 1000) << "also inside an event that does not end";
}

// Nothing is kept, so nothing is too long.
TEST(UsageReader, AnAnswerOfAnySizeIsRead) {
  UsageReader reader(Provider::OpenAi, Framing::Json);
  reader.feed("{\"data\":[\"");
  const std::string piece(1U << 20U, 'a');
  for (int i = 0; i < 64; ++i) reader.feed(piece);
  reader.feed("\"],\"usage\":{\"prompt_tokens\":3,\"total_tokens\":3}}\n");
  EXPECT_EQ(reader.finish(0), (UsageReport{Reading::Exact, {.input = 3}}));
}

TEST(UsageReader, TheContentTypeTellsTheFraming) {
  for (const char* type : {"text/event-stream", "Text/Event-Stream; charset=utf-8"})
    EXPECT_EQ(framing_of(type), Framing::EventStream) << type;
  for (const char* type : {"", "application/json", "text/event-streams", "text/event"})
    EXPECT_EQ(framing_of(type), Framing::Json) << type;
}

}  // namespace
}  // namespace caisson::egress
