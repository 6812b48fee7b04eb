#include "policy/settings/listen_address.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::policy {
namespace {

TEST(ListenAddress, WhatCouldMeanTwoThingsIsRefused) {
  for (const char* text : {"",
                           "8080",
                           ":8080",
                           "127.0.0.1",
                           "127.0.0.1:",
                           "127.0.0.1:65536",
                           "127.0.0.1:080",
                           "127.0.0.1:-1",
                           "127.0.0.1:80 ",
                           "127.1:80",
                           "0x7f.0.0.1:80",
                           "::1:80",
                           "[::1]",
                           "[::1:80",
                           "[127.0.0.1]:80",
                           "localhost:80",
                           "example.com:80",
                           "*:80",
                           "unix:",
                           "unix:relative",
                           "unix:/a/../b",
                           "tcp:127.0.0.1:80",
                           "[::1]80"}) {
    const auto result = parse_listen_address(text);
    EXPECT_FALSE(result) << text;
    if (!result) EXPECT_EQ(result.error().code, Errc::InvalidArgument) << text;
  }
  EXPECT_FALSE(parse_listen_address("unix:/" + std::string(kUnixPathBytesMax, 'a')));
  EXPECT_FALSE(parse_listen_address(std::string_view("127.0.0.1:80\0", 13)));
  EXPECT_NE(parse_listen_address("localhost:80").error().message.find("127.0.0.1"),
            std::string::npos);
}

TEST(ListenAddress, IsPrintedAsItIsRead) {
  for (const char* text :
       {"127.0.0.1:8080", "0.0.0.0:0", "[::1]:8080", "[::]:65535", "unix:/run/caisson/api.sock"}) {
    const auto result = parse_listen_address(text);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(to_string(*result), text);
  }
  EXPECT_EQ(to_string(*parse_listen_address("[0:0:0:0:0:0:0:1]:1")), "[::1]:1");
  const std::string longest = "unix:/" + std::string(kUnixPathBytesMax - 1, 'a');
  EXPECT_EQ(to_string(parse_listen_address(longest).value()), longest);
}

TEST(ListenAddress, OnlyThisMachineIsLocal) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "unix:/a"})
    EXPECT_TRUE(parse_listen_address(text)->is_local()) << text;
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[::2]:1", "[::ffff:127.0.0.1]:1"})
    EXPECT_FALSE(parse_listen_address(text)->is_local()) << text;
}

TEST(HostHeader, NamesAndLiterals) {
  EXPECT_EQ(*parse_host_header("Caisson.Example.com"), "caisson.example.com");
  EXPECT_EQ(*parse_host_header("caisson.example.com:8443"), "caisson.example.com:8443");
  EXPECT_EQ(*parse_host_header("10.0.0.5:8080"), "10.0.0.5:8080");
  EXPECT_EQ(*parse_host_header("[0::1]:80"), "[::1]:80");
  for (const char* text : {"", "*.example.com", "a/b", "a:0", "a:b", "user@host", "[x]", "10.1"})
    EXPECT_FALSE(parse_host_header(text)) << text;
}

TEST(Origin, IsSchemeAndHost) {
  EXPECT_EQ(*parse_origin("https://Console.example.com"), "https://console.example.com");
  EXPECT_EQ(*parse_origin("http://127.0.0.1:3000"), "http://127.0.0.1:3000");
  for (const char* text : {"null", "*", "console.example.com", "https://a/", "ftp://a.example"})
    EXPECT_FALSE(parse_origin(text)) << text;
}

}  // namespace
}  // namespace caisson::policy
