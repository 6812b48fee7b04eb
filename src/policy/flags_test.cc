#include "policy/flags.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::policy {
namespace {

std::uint64_t bytes_of(std::string_view text) {
  const auto result = parse_bytes(text);
  return result ? result->value_or(0) : 0;
}

TEST(ParseBytes, WhatIsNotASizeIsRefused) {
  for (const char* text :
       {"", "m", "-1", "+1", "1x", "1 m", "0", "0.1", "1..2", "1.2.3", ".5g", "1.", "1e3", "0x10",
        "nan", "inf", "Unlimited ", "2000t", "99999999999999999999"}) {
    const auto result = parse_bytes(text);
    EXPECT_FALSE(result) << text;
    if (!result) EXPECT_EQ(result.error().code, Errc::InvalidArgument);
  }
}

TEST(ParseBytes, UnitsArePowersOf1024) {
  EXPECT_EQ(bytes_of("1048576"), 1048576U);
  EXPECT_EQ(bytes_of("512m"), 512U << 20);
  EXPECT_EQ(bytes_of("1g"), 1U << 30);
  EXPECT_EQ(bytes_of("64MiB"), 64U << 20);
  EXPECT_EQ(bytes_of("1.5k"), 1536U);
  EXPECT_EQ(bytes_of("2KB"), 2048U);
  EXPECT_EQ(bytes_of("1024t"), kFlagBytesMax);
  const auto unlimited = parse_bytes("unlimited");
  ASSERT_TRUE(unlimited);
  EXPECT_FALSE(*unlimited);
}

TEST(ParseDuration, WhatIsNotATimeIsRefused) {
  for (const char* text :
       {"", "s", "-1s", "0", "0s", "1x", "1 s", "1e3", "nan", "inf", "4000d", ".5"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(ParseDuration, UnitsAndPlainSeconds) {
  EXPECT_EQ(*parse_duration("30s"), seconds(30));
  EXPECT_EQ(*parse_duration("1.5"), milliseconds(1500));
  EXPECT_EQ(*parse_duration("250ms"), milliseconds(250));
  EXPECT_EQ(*parse_duration("2m"), seconds(120));
  EXPECT_EQ(*parse_duration("1h"), seconds(3600));
  EXPECT_EQ(*parse_duration("3650d"), kFlagDurationMax);
}

TEST(ParseAllow, OnlyHostAndPort) {
  for (const char* text : {"", ":443", "a.b:", "a.b:0", "a.b:80:81", "https://a.b", "a.b/x", "*",
                           "[::1]:80", "127.0.0.1", "10.0.0.1:80", "user@a.b"}) {
    EXPECT_FALSE(parse_allow(text)) << text;
  }
  const auto rule = parse_allow("*.Example.com:443");
  ASSERT_TRUE(rule);
  EXPECT_EQ(*rule, (NetworkEgressRule{.domain = "*.example.com", .ports = {443}}));
  EXPECT_TRUE(parse_allow("a.b")->ports.empty());
}

TEST(Command, ShellMetacharactersAreNamed) {
  for (const std::string text : {"", "a;b", "a|b", "a&b", "a$b", "a`b", "a\nb", "$(x)"}) {
    EXPECT_FALSE(is_command_acceptable(text)) << text;
  }
  EXPECT_FALSE(is_command_acceptable(std::string_view("a\0b", 3)));
  EXPECT_EQ(is_command_acceptable("ls;rm").error().message,
            "command \"ls;rm\" has the shell metacharacter ';'; to use a shell, run sh -c '...'");
  EXPECT_NE(is_command_acceptable("a\nb").error().message.find("a newline"), std::string::npos);
  for (const char* text : {"ls", "/usr/bin/python3", "./my tool", "g++", "[", "a*b"}) {
    EXPECT_TRUE(is_command_acceptable(text)) << text;
  }
}

}  // namespace
}  // namespace caisson::policy
