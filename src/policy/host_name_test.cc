#include "policy/host_name.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::policy {
namespace {

TEST(CanonicalHost, EverySpellingOfAnAddressIsRefused) {
  for (const char* text :
       {"127.0.0.1", "127.1", "2130706433", "017700000001", "0x7f000001", "0x7f.1", "0X7F.0.0.1",
        "1.2.3.4.5", "example.0x", "example.42", "a.0xff", "::1", "[::1]", "::ffff:127.0.0.1",
        "fe80::1%eth0", "169.254.169.254"}) {
    const auto result = canonical_host(text);
    EXPECT_FALSE(result) << text;
  }
}

TEST(CanonicalHost, OddBytesAreRefusedNotRepaired) {
  for (const std::string_view text :
       {std::string_view("a\0.example", 10), std::string_view("a.example\n"),
        std::string_view(" a"), std::string_view("a b"), std::string_view("a\\b"),
        std::string_view("user@a.example"), std::string_view("a%2eexample"),
        std::string_view("a#b"), std::string_view("a/b"), std::string_view("exämple.com"),
        std::string_view("a。b"), std::string_view("a:80"), std::string_view("*.example.com"),
        std::string_view("a\x7f"), std::string_view("a,b")}) {
    EXPECT_FALSE(canonical_host(text)) << text;
  }
}

TEST(CanonicalHost, LabelsAreWholeAndShort) {
  for (const char* text : {"", ".", "a.", ".a", "a..b", "-a.b", "a-.b", "example.com."}) {
    EXPECT_FALSE(canonical_host(text)) << text;
  }
  EXPECT_TRUE(canonical_host(std::string(kLabelBytesMax, 'a')));
  EXPECT_FALSE(canonical_host(std::string(kLabelBytesMax + 1, 'a')));
  std::string longest;
  while (longest.size() < kHostBytesMax) longest += "a.";
  longest.resize(kHostBytesMax);
  EXPECT_EQ(longest.back(), 'a');
  EXPECT_TRUE(canonical_host(longest));
  EXPECT_FALSE(canonical_host(longest + "b"));
}

TEST(CanonicalHost, ErrorsNameTheHostWithoutItsBytesActing) {
  const auto result = canonical_host("a\x1b[2J");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::InvalidArgument);
  EXPECT_EQ(result.error().message, "host \"a\\x1b[2J\": a space or control character");
}

TEST(CanonicalHost, NamesBecomeLowerCase) {
  EXPECT_EQ(*canonical_host("API.Example.COM"), "api.example.com");
  EXPECT_EQ(*canonical_host("localhost"), "localhost");
  EXPECT_EQ(*canonical_host("_dmarc.x--y.example"), "_dmarc.x--y.example");
  EXPECT_EQ(*canonical_host("xn--bcher-kva.example"), "xn--bcher-kva.example");
  EXPECT_EQ(*canonical_host("1.2.3.example"), "1.2.3.example");
  EXPECT_EQ(*canonical_host("0xyz"), "0xyz");
}

TEST(CanonicalRuleDomain, TheStarStandsOnlyInFront) {
  for (const char* text :
       {"*", "*.", "*.*.com", "a.*.com", "*a.com", "a.*", "**.com", "*.127.0.0.1"}) {
    EXPECT_FALSE(canonical_rule_domain(text)) << text;
  }
  EXPECT_EQ(*canonical_rule_domain("*.Example.com"), "*.example.com");
  EXPECT_EQ(*canonical_rule_domain("Example.com"), "example.com");
}

TEST(ParsePort, OnlyPlainNumbersFrom1To65535) {
  for (const char* text :
       {"", "0", "65536", "99999", "100000", "-1", "+1", "080", " 80", "80 ", "8a"}) {
    EXPECT_FALSE(parse_port(text)) << text;
  }
  EXPECT_EQ(*parse_port("1"), 1);
  EXPECT_EQ(*parse_port("65535"), 65535);
}

}  // namespace
}  // namespace caisson::policy
