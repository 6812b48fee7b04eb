#include "egress/wire/host_name.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace caisson::egress {
namespace {

using std::string_view_literals::operator""sv;

// Each of these reaches 127.0.0.1 or ::1 through some resolver, C library or browser.
TEST(HostName, NoSpellingOfLoopbackIsAName) {
  constexpr std::array kSpellings = {"127.0.0.1"sv,
                                     "127.1"sv,
                                     "127.0.1"sv,
                                     "127.0.0.1."sv,
                                     "127.000.000.001"sv,
                                     "0177.0.0.1"sv,
                                     "0177.0.0.01"sv,
                                     "0177.1"sv,
                                     "00000177.1"sv,
                                     "0x7f.0.0.1"sv,
                                     "0x7f.0x0.0x0.0x1"sv,
                                     "0X7F.1"sv,
                                     "0x7f000001"sv,
                                     "0x000000007f000001"sv,
                                     "2130706433"sv,
                                     "02130706433"sv,
                                     "017700000001"sv,
                                     "127.0x0.0.01"sv,
                                     "0x7f.1."sv,
                                     "127.127.127.127"sv,
                                     "0"sv,
                                     "0.0.0.0"sv,
                                     "0x0"sv,
                                     "00"sv,
                                     "::1"sv,
                                     "[::1]"sv,
                                     "[::]"sv,
                                     "::"sv,
                                     "0:0:0:0:0:0:0:1"sv,
                                     "[0000:0000:0000:0000:0000:0000:0000:0001]"sv,
                                     "::ffff:127.0.0.1"sv,
                                     "[::ffff:127.0.0.1]"sv,
                                     "[::ffff:7f00:1]"sv,
                                     "[::127.0.0.1]"sv,
                                     "[64:ff9b::127.0.0.1]"sv,
                                     "[::1%lo]"sv,
                                     "::1%25lo"sv,
                                     "[fe80::1%eth0]"sv,
                                     "127.0.0.1%00.example.com"sv,
                                     "127.0.0.1\0.example.com"sv,
                                     "127。0。0。1"sv,
                                     "①②⑦.⓪.⓪.①"sv,
                                     "１２７.０.０.１"sv,
                                     "127.0.0.1:80"sv,
                                     "[::1]:80"sv,
                                     "example.com@127.0.0.1"sv,
                                     "127.0.0.1#example.com"sv,
                                     "127.0.0.1\\example.com"sv,
                                     " 127.0.0.1"sv,
                                     "127.0.0.1\t"sv,
                                     "%31%32%37.0.0.1"sv,
                                     "0x"sv};
  static_assert(kSpellings.size() >= 30);
  for (const std::string_view text : kSpellings) EXPECT_FALSE(HostName::parse(text)) << text;
}

TEST(HostName, ARefusalHasItsType) {
  const auto fault = [](std::string_view text) {
    const auto host = HostName::parse(text);
    EXPECT_FALSE(host) << text;
    return host ? std::string_view("accepted") : to_string(host.error());
  };
  const auto same = [&](std::string_view text, HostFault want) {
    EXPECT_EQ(fault(text), to_string(want)) << text;
  };
  same("", HostFault::Empty);
  same(std::string(254, 'a'), HostFault::TooLong);
  same(std::string(64, 'a') + ".b", HostFault::TooLong);
  same("good.example\0.evil.example"sv, HostFault::NulByte);
  same("good.example evil", HostFault::BadByte);
  same("good.example%2eevil", HostFault::BadByte);
  same("good.example/evil", HostFault::BadByte);
  same("good.example\\evil", HostFault::BadByte);
  same("a\nb", HostFault::BadByte);
  same("bücher.example", HostFault::NotAscii);
  same("good.example@evil.example", HostFault::Userinfo);
  same("evil.example#good.example", HostFault::Fragment);
  same("*.example.com", HostFault::Wildcard);
  same("good.example:443", HostFault::Port);
  same("good.example.", HostFault::TrailingDot);
  same("good..example", HostFault::EmptyLabel);
  same(".example", HostFault::EmptyLabel);
  same(".", HostFault::EmptyLabel);
  same("a..", HostFault::EmptyLabel);
  same("-a.example", HostFault::Hyphen);
  same("a-.example", HostFault::Hyphen);
  same("xn--.example", HostFault::Hyphen);
  same("[fe80::1%eth0]", HostFault::AddressLiteral);
  same("0x7f.1", HostFault::AddressLiteral);
}

TEST(HostName, EqualAfterCanonicalisation) {
  const auto upper = HostName::parse("API.Example.COM");
  const auto lower = HostName::parse("api.example.com");
  ASSERT_TRUE(upper && lower);
  EXPECT_EQ(*upper, *lower);
  EXPECT_EQ(upper->text(), "api.example.com");
  EXPECT_EQ(HostName::parse("XN--bcher-KVA.example")->text(), "xn--bcher-kva.example");
  EXPECT_TRUE(HostName::parse(std::string(63, 'a') + ".example"));
}

}  // namespace
}  // namespace caisson::egress
