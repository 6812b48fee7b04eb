#include "egress/wire/client_hello.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::egress {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

std::string sized8(std::string_view body) {
  return std::string(1, static_cast<char>(body.size())) + std::string(body);
}
std::string sized16(std::string_view body) {
  Buffer size;
  put_u16(size, static_cast<std::uint16_t>(body.size()));
  return std::string(as_text(size)) + std::string(body);
}
std::string extension(std::uint16_t type, std::string_view body) {
  Buffer head;
  put_u16(head, type);
  return std::string(as_text(head)) + sized16(body);
}
std::string server_name(std::string_view host) {
  return extension(0, sized16("\0"s + sized16(host)));
}
std::string hello(std::string_view extensions) {
  std::string body = "\x03\x03"s + std::string(32, 'r') + sized8(std::string(32, 's'));
  body += sized16("\x13\x01\xc0\x2f") + sized8("\0"sv) + sized16(extensions);
  const std::string size = sized16(body);
  return "\x01"s + std::string(1, static_cast<char>(body.size() >> 16)) + size.substr(0, 2) + body;
}
// In records of at most `step` bytes.
std::string records(std::string_view handshake, std::size_t step = 16384) {
  std::string out;
  while (!handshake.empty()) {
    const std::string_view piece = handshake.substr(0, step);
    out += "\x16\x03\x01" + sized16(piece);
    handshake.remove_prefix(piece.size());
  }
  return out;
}
HelloParser parsed(std::string_view bytes, std::size_t step = 1 << 20) {
  HelloParser parser;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, step);
    parser.feed(as_bytes(piece));
    bytes.remove_prefix(piece.size());
  }
  return parser;
}
void expect_fault(std::string_view bytes, HelloFault fault) {
  const HelloParser parser = parsed(bytes);
  ASSERT_EQ(parser.state(), HelloState::Refused);
  EXPECT_EQ(to_string(parser.fault()), to_string(fault));
}

TEST(ClientHello, WhatIsNotTlsIsKnownAtOnce) {
  for (const std::string_view text :
       {"GET / HTTP/1.1\r\n"sv, "SSH-2.0-x"sv, "\x80\x2e\x01\x03\x01"sv, "\x16\x02"sv, "\x15\x03"sv,
        "\0"sv}) {
    EXPECT_EQ(parsed(text).state(), HelloState::NotTls);
  }
  EXPECT_EQ(parsed("\x16").state(), HelloState::NeedMore);
}

TEST(ClientHello, ExactlyOneNameThatIsAHost) {
  const auto with = [](std::string_view list) {
    return records(hello(extension(0, sized16(list))));
  };
  expect_fault(with("\0"s + sized16("127.0.0.1")), HelloFault::BadServerName);
  expect_fault(with("\0"s + sized16("a.example.")), HelloFault::BadServerName);
  expect_fault(with("\0"s + sized16("a\0.example"sv)), HelloFault::BadServerName);
  expect_fault(with("\0"s + sized16("")), HelloFault::BadServerName);
  expect_fault(with("\1"s + sized16("a.example")), HelloFault::BadServerName);
  expect_fault(with("\0"s + sized16("a.example") + "\0"s + sized16("b.example")),
               HelloFault::BadServerName);
  expect_fault(with(""), HelloFault::Malformed);
  expect_fault(records(hello(server_name("a.example") + server_name("b.example"))),
               HelloFault::TwiceExtension);
}

TEST(ClientHello, LengthsThatDoNotFitAreRefused) {
  const std::string good = hello(server_name("a.example"));
  for (std::size_t at = 4; at < good.size(); ++at) {
    // Cut the body and repair the outer length: what is inside is then short.
    std::string cut = good.substr(0, at);
    cut[2] = static_cast<char>((at - 4) >> 8);
    cut[3] = static_cast<char>((at - 4) & 0xff);
    const HelloParser parser = parsed(records(cut));
    // Behind the compression methods a hello without extensions is whole.
    const bool may_end = parser.state() == HelloState::Done && !parser.hello().server_name;
    EXPECT_TRUE(parser.state() == HelloState::Refused || may_end) << at;
  }
  expect_fault(records(good + "x"), HelloFault::Trailing);
  expect_fault(records("\x02\0\0\1x"sv), HelloFault::NotClientHello);
  expect_fault("\x16\x03\x01\0\0"sv, HelloFault::BadRecord);
  expect_fault("\x16\x03\x01\x40\x01"sv, HelloFault::BadRecord);
  expect_fault(records(good.substr(0, 20)) + "\x17\x03\x03", HelloFault::BadRecord);
  expect_fault(records("\x01\x7f\xff\xff"), HelloFault::TooLong);
}

TEST(ClientHello, LimitsAreReached) {
  std::string most;
  for (std::size_t i = 0; i < kHelloExtensionsMax; ++i) {
    most += extension(static_cast<std::uint16_t>(0x4000 + i), "");
  }
  EXPECT_EQ(parsed(records(hello(most))).state(), HelloState::Done);
  expect_fault(records(hello(most + extension(0x5000, ""))), HelloFault::TooManyExtensions);
  std::string protocols;
  for (std::size_t i = 0; i < kHelloProtocolsMax; ++i) protocols += sized8("h2");
  EXPECT_EQ(parsed(records(hello(extension(16, sized16(protocols))))).state(), HelloState::Done);
  expect_fault(records(hello(extension(16, sized16(protocols + sized8("x"))))),
               HelloFault::TooManyProtocols);
  // One byte per record costs six: the bound is on what the wire carries.
  const std::string long_hello = hello(extension(21, std::string(12000, '\0')));
  expect_fault(records(long_hello, 1), HelloFault::TooLong);
  EXPECT_EQ(parsed(records(long_hello)).state(), HelloState::Done);
}

TEST(ClientHello, AnyPiecesGiveTheSameAnswer) {
  const std::string extensions = server_name("API.Example.com") +
                                 extension(16, sized16(sized8("h2") + sized8("http/1.1"))) +
                                 extension(43, sized8("\x03\x04\x03\x03"));
  const std::string handshake = hello(extensions);
  for (const std::size_t record_bytes : {1UL, 3UL, 100UL, 16384UL}) {
    const std::string bytes = records(handshake, record_bytes);
    for (const std::size_t step : {1UL, 7UL, 100000UL}) {
      const HelloParser parser = parsed(bytes + "later", step);
      ASSERT_EQ(parser.state(), HelloState::Done);
      EXPECT_EQ(parser.consumed(), bytes.size());
      EXPECT_EQ(parser.hello().server_name->text(), "api.example.com");
      EXPECT_FALSE(parser.hello().encrypted_hello);
      EXPECT_EQ(parser.hello().protocols, (std::vector{"h2"s, "http/1.1"s}));
      EXPECT_EQ(parser.hello().versions, (std::vector<std::uint16_t>{0x0304, 0x0303}));
    }
    for (std::size_t size = 0; size < bytes.size(); size += 13) {
      EXPECT_EQ(parsed(bytes.substr(0, size)).state(), HelloState::NeedMore);
    }
  }
}

TEST(ClientHello, AHiddenNameIsSeenToBeHidden) {
  for (const unsigned type : {0xfe08U, 0xfe0dU, 0xffceU}) {
    const HelloParser parser = parsed(records(
        hello(server_name("a.example") + extension(static_cast<std::uint16_t>(type), "secret"))));
    ASSERT_EQ(parser.state(), HelloState::Done);
    EXPECT_TRUE(parser.hello().encrypted_hello);
  }
}

TEST(ClientHello, NoNameIsNotAName) {
  const HelloParser parser = parsed(records(hello("")));
  ASSERT_EQ(parser.state(), HelloState::Done);
  EXPECT_FALSE(parser.hello().server_name);
}

}  // namespace
}  // namespace caisson::egress
