#include "doors/mcp/message.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::mcp {
namespace {

Read read(std::string_view text) {
  MessageReader reader;
  for (const char c : text) reader.feed({&c, 1});
  return reader.finish();
}

int code_of(std::string_view text) {
  const auto message = read(text);
  return message ? 0 : message.error().code;
}

TEST(Message, TellsTheThreeKinds) {
  const auto request = read(R"({"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1}})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->kind, Message::Kind::Request);
  EXPECT_EQ(request->id, 7);
  EXPECT_EQ(request->method, "ping");
  EXPECT_EQ(request->params.at("a"), 1);
  EXPECT_EQ(read(R"({"jsonrpc":"2.0","method":"x"})")->kind, Message::Kind::Notification);
  EXPECT_EQ(read(R"({"jsonrpc":"2.0","id":1,"result":{}})")->kind, Message::Kind::Response);
}

TEST(Message, WhatIsNoneIsNamed) {
  EXPECT_EQ(code_of("{"), kParseError);
  EXPECT_EQ(code_of("\xff"), kParseError);
  EXPECT_EQ(code_of("[]"), kInvalidRequest);
  EXPECT_EQ(code_of("3"), kInvalidRequest);
  EXPECT_EQ(code_of(R"({"id":1,"method":"x"})"), kInvalidRequest);
  EXPECT_EQ(code_of(R"({"jsonrpc":"1.0","id":1,"method":"x"})"), kInvalidRequest);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1})"), kInvalidRequest);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":""})"), kInvalidRequest);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":null,"method":"x"})"), kInvalidRequest);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1.5,"method":"x"})"), kInvalidRequest);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":"x","params":[]})"), kInvalidRequest);
  const auto kept = read(R"({"jsonrpc":"2.0","id":"a","method":3})");
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().id, "a") << "an answer must find its question";
}

TEST(Message, HasLimits) {
  const std::string id(kIdBytesMax + 1, 'x');
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","method":"x","id":")" + id + "\"}"), kInvalidRequest);
  const std::string method(kMethodBytesMax + 1, 'x');
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":")" + method + "\"}"), kInvalidRequest);
  MessageReader reader;
  reader.feed(R"({"jsonrpc":"2.0","id":1,"method":"x","params":{"a":")");
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 16; ++i) reader.feed(piece);
  EXPECT_LE(reader.held(), kTextBytesMax + kOtherBytesMax + 2) << "the rest is not kept";
  reader.feed("\"}}");
  const auto large = reader.finish();
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, kInvalidRequest);
}

}  // namespace
}  // namespace caisson::mcp
