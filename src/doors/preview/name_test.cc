#include "doors/preview/name.h"

#include <gtest/gtest.h>

namespace caisson::preview {
namespace {

const std::string kId = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kVhost = "box.example";

TEST(PreviewName, NothingElseIsOne) {
  for (const std::string& host : {
           std::string(""),
           std::string("box.example"),
           std::string(".box.example"),
           std::string("www.box.example"),
           "x" + kId + ".box.example",
           kId + ".box.example.",           // another site to a browser
           kId + ".box.example.evil.test",  // a name that only begins like ours
           kId + ".Box.example",
           "A" + kId.substr(1) + ".box.example",
           kId + "box.example",
           kId + "..box.example",
           "a." + kId + ".box.example",
           "0-" + kId + ".box.example",
           "080-" + kId + ".box.example",
           "65536-" + kId + ".box.example",
           "-" + kId + ".box.example",
           "-1-" + kId + ".box.example",
           "+1-" + kId + ".box.example",
           "80-90-" + kId + ".box.example",
           "80--" + kId + ".box.example",
           "x-" + kId + ".box.example",
           kId + "-80.box.example",
           kId + ".box.example:",
           kId + ".box.example:0",
           kId + ".box.example:x",
           kId + ".box.example:080",
           kId + ".box.example:123456",
           kId + ".box.example:80:80",
           kId + ".box.example@evil.test",
           "evil.test/" + kId + ".box.example",
           kId + "%2ebox.example",
           std::string("[::1]"),
           std::string("127.0.0.1"),
       }) {
    EXPECT_FALSE(parse_name(host, kVhost)) << host;
  }
  EXPECT_FALSE(parse_name(kId + ".box.example", ""));
  EXPECT_FALSE(parse_name(kId + ".", ""));
}

TEST(PreviewName, ReadsThePortAndTheSandbox) {
  const auto plain = parse_name(kId + ".box.example", kVhost);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->sandbox, kId);
  EXPECT_FALSE(plain->port);
  const auto numbered = parse_name("65535-" + kId + ".box.example:8443", kVhost);
  ASSERT_TRUE(numbered);
  EXPECT_EQ(numbered->sandbox, kId);
  EXPECT_EQ(numbered->port, 65535);
  EXPECT_EQ(make_host(*numbered, kVhost), "65535-" + kId + ".box.example");
  EXPECT_EQ(make_host(*plain, kVhost), kId + ".box.example");
  EXPECT_EQ(parse_name("1-" + kId + ".box.example", kVhost)->port, 1);
}

TEST(PreviewName, WritesAddresses) {
  PreviewOptions options{.vhost = "box.example"};
  EXPECT_EQ(make_origin("a", options), "https://a");
  options.port = 443;
  EXPECT_EQ(make_origin("a", options), "https://a");
  options.port = 8443;
  EXPECT_EQ(make_origin("a", options), "https://a:8443");
  options.scheme = "http";
  options.port = 80;
  EXPECT_EQ(make_origin("a", options), "http://a");
}

TEST(PreviewName, OnlyPathsOfTheSameHost) {
  for (const char* good : {"/", "/a/b?c=%20d", "/.caisson", "/a//b"}) {
    EXPECT_TRUE(is_local_path(good)) << good;
  }
  for (const char* bad :
       {"", "a", "//evil.test", "/\\evil.test", "/a\\b", "https://evil.test/", "/a b", "/a\r\nX: y",
        "/.caisson/enter?ticket=x", "/a#b", "/\x7f", "/\xC3\xA9"}) {
    EXPECT_FALSE(is_local_path(bad)) << bad;
  }
}

TEST(PreviewName, EncodesEverythingThatHasAMeaning) {
  EXPECT_EQ(percent_encode("/a?b=c&d#e%20\"~"), "%2Fa%3Fb%3Dc%26d%23e%2520%22~");
}

}  // namespace
}  // namespace caisson::preview
