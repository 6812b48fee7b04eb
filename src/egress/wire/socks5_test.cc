#include "egress/wire/socks5.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::egress {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

struct Talk {
  SocksParser parser;
  std::string replies;
  std::size_t consumed = 0;
};

// Plays the bytes in pieces; credentials are accepted when they are user and password.
Talk talk(SocksAuth auth, std::string_view bytes, std::size_t step = 1000) {
  Talk out{SocksParser(auth), {}, 0};
  while (!bytes.empty()) {
    const SocksStep got = out.parser.feed(as_bytes(bytes.substr(0, step)));
    out.replies += as_text(got.reply);
    out.consumed += got.consumed;
    bytes.remove_prefix(got.consumed);
    if (got.state == SocksState::Credentials) {
      const bool good = out.parser.user() == "user" && out.parser.password() == "password";
      out.replies += as_text(out.parser.credentials(good).reply);
      continue;
    }
    if (got.state != SocksState::NeedMore) break;
  }
  return out;
}

const std::string kGreeting = "\x05\x01\0"s;
std::string name_request(std::string_view name, std::string_view port = "\x01\xbb"sv) {
  return "\x05\x01\0\x03"s + std::string(1, static_cast<char>(name.size())) + std::string(name) +
         std::string(port);
}

void expect_fault(SocksAuth auth, const std::string& bytes, SocksFault fault,
                  std::string_view last_reply) {
  for (const std::size_t step : {1UL, 1000UL}) {
    const Talk got = talk(auth, bytes, step);
    ASSERT_EQ(got.parser.state(), SocksState::Refused) << to_string(fault);
    EXPECT_EQ(to_string(got.parser.fault()), to_string(fault));
    EXPECT_TRUE(got.replies.ends_with(last_reply));
    EXPECT_EQ(got.replies.empty(), last_reply.empty());
  }
}

TEST(Socks5, OtherProtocolsAreRefusedAtTheFirstByte) {
  expect_fault(SocksAuth::None, "\x04\x01\0\x50"s, SocksFault::NotSocks5, "");
  expect_fault(SocksAuth::None, "GET / HTTP/1.1", SocksFault::NotSocks5, "");
  expect_fault(SocksAuth::None, kGreeting + "\x04", SocksFault::NotSocks5, "\x05\0"sv);
}

TEST(Socks5, OnlyOurWayToLogIn) {
  expect_fault(SocksAuth::None, "\x05\0"s, SocksFault::NoMethod, "\x05\xff");
  expect_fault(SocksAuth::None, "\x05\x01\x02"s, SocksFault::NoMethod, "\x05\xff");
  expect_fault(SocksAuth::UserPassword, "\x05\x02\0\x01"s, SocksFault::NoMethod, "\x05\xff");
  const std::string greeting = "\x05\x02\0\x02"s;
  for (const std::string_view login : {"\x02\x04user\x08password"sv, "\x01\0\x01x"sv,
                                       "\x01\x01x\0"sv, "\x01\x04user\x08passwort"sv}) {
    expect_fault(SocksAuth::UserPassword, greeting + std::string(login), SocksFault::BadCredentials,
                 "\x01\x01");
  }
}

TEST(Socks5, OnlyConnect) {
  const auto refused = [](std::string_view request, SocksFault fault, char code) {
    expect_fault(SocksAuth::None, kGreeting + std::string(request), fault,
                 "\x05"s + code + "\0\x01\0\0\0\0\0\0"s);
  };
  refused("\x05\x02\0\x01"sv, SocksFault::Command, 7);
  refused("\x05\x03\0\x01"sv, SocksFault::Command, 7);
  refused("\x05\x01\x01\x01"sv, SocksFault::Malformed, 1);
  refused("\x05\x01\0\x02"sv, SocksFault::AddressType, 8);
  refused("\x05\x01\0\x03\0"sv, SocksFault::Malformed, 1);
  refused(name_request("a.example", "\0\0"sv), SocksFault::Port, 1);
}

TEST(Socks5, AddressesAreReportedNotServed) {
  const Talk v4 = talk(SocksAuth::None, kGreeting + "\x05\x01\0\x01\x7f\0\0\x01\0\x50"s);
  ASSERT_EQ(v4.parser.state(), SocksState::Done);
  EXPECT_EQ(to_string(std::get<IpAddress>(v4.parser.target())), "127.0.0.1");
  const Talk v6 =
      talk(SocksAuth::None, kGreeting + "\x05\x01\0\x04"s + std::string(15, '\0') + "\x01\0\x50"s);
  ASSERT_EQ(v6.parser.state(), SocksState::Done);
  EXPECT_EQ(to_string(std::get<IpAddress>(v6.parser.target())), "::1");
  const Talk text = talk(SocksAuth::None, kGreeting + name_request("0x7f.1"));
  ASSERT_EQ(text.parser.state(), SocksState::Done);
  EXPECT_EQ(std::get<HostFault>(text.parser.target()), HostFault::AddressLiteral);
}

TEST(Socks5, ANameArrivesInAnyPieces) {
  const std::string login = "\x05\x02\0\x02\x01\x04user\x08password"s;
  for (const std::size_t step : {1UL, 2UL, 5UL, 1000UL}) {
    const std::string bytes = kGreeting + name_request("API.example");
    const Talk plain = talk(SocksAuth::None, bytes + "early", step);
    ASSERT_EQ(plain.parser.state(), SocksState::Done);
    EXPECT_EQ(std::get<HostName>(plain.parser.target()).text(), "api.example");
    EXPECT_EQ(plain.parser.port(), 443);
    EXPECT_EQ(plain.consumed, bytes.size());
    EXPECT_EQ(plain.replies, "\x05\0"s);
    const Talk logged = talk(SocksAuth::UserPassword, login + name_request("b.example"), step);
    ASSERT_EQ(logged.parser.state(), SocksState::Done);
    EXPECT_EQ(logged.replies, "\x05\x02\x01\0"s);
    EXPECT_TRUE(logged.parser.password().empty());
  }
}

TEST(Socks5, TheLongestMessagesFit) {
  const std::string longest(255, 'u');
  const Talk login =
      talk(SocksAuth::UserPassword, "\x05\x01\x02\x01\xff"s + longest + "\xff"s + longest);
  EXPECT_EQ(login.parser.state(), SocksState::Refused);  // not our user, but read to its end
  EXPECT_EQ(login.consumed, 3 + kSocksMessageBytesMax);
  const Talk name = talk(SocksAuth::None, kGreeting + name_request(longest));
  EXPECT_EQ(std::get<HostFault>(name.parser.target()), HostFault::TooLong);
}

}  // namespace
}  // namespace caisson::egress
