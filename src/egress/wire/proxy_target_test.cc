#include "egress/wire/proxy_target.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace caisson::egress {
namespace {

using namespace std::string_view_literals;
using Row = std::pair<std::string_view, TargetFault>;

TEST(ProxyTarget, ConnectNamesAHostAndAPort) {
  const std::vector<Row> rows = {
      {"", TargetFault::Empty},
      {"good.example", TargetFault::PortMissing},
      {"good.example:", TargetFault::PortBad},
      {"good.example:0", TargetFault::PortBad},
      {"good.example:65536", TargetFault::PortBad},
      {"good.example:0443", TargetFault::PortBad},
      {"good.example:443:443", TargetFault::Host},
      {"good.example:443/", TargetFault::Form},
      {"http://good.example:443", TargetFault::Form},
      {"good.example:443?x", TargetFault::Form},
      {"/good.example:443", TargetFault::Form},
      {"user@good.example:443", TargetFault::Userinfo},
      {"good.example:443@evil.example:443", TargetFault::Userinfo},
      {"good.example:443#evil", TargetFault::Fragment},
      {"good.example :443", TargetFault::BadByte},
      {"good.example\0.evil:443"sv, TargetFault::BadByte},
      {"good.example\\.evil:443", TargetFault::BadByte},
      {"good.example.:443", TargetFault::Host},
      {"127.0.0.1:443", TargetFault::Host},
      {"0x7f.1:443", TargetFault::Host},
      {"[::1]:443", TargetFault::Host},
      {"::1:443", TargetFault::Host},
      {"*:443", TargetFault::Host},
      {":443", TargetFault::Host},
  };
  for (const auto& [text, fault] : rows) {
    const auto target = parse_connect_target(text);
    ASSERT_FALSE(target) << text;
    EXPECT_EQ(to_string(target.error().fault), to_string(fault)) << text;
  }
  EXPECT_EQ(parse_connect_target("[::1]:443").error().host_fault, HostFault::AddressLiteral);
  const auto target = parse_connect_target("Good.Example:8443");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->host.text(), "good.example");
  EXPECT_EQ(target->port, 8443);
  EXPECT_EQ(parse_connect_target("a.example", PortRule::Default443)->port, 443);
}

TEST(ProxyTarget, OnlyPlainHttpIsForwarded) {
  const std::vector<Row> rows = {
      {"", TargetFault::Empty},
      {"/path", TargetFault::Form},
      {"*", TargetFault::Form},
      {"good.example:80", TargetFault::Form},
      {"http:/good.example/", TargetFault::Form},
      {"/http://good.example/", TargetFault::Form},
      {"https://good.example/", TargetFault::Scheme},
      {"ftp://good.example/", TargetFault::Scheme},
      {"://good.example/", TargetFault::Scheme},
      {"http://", TargetFault::Host},
      {"http:///path", TargetFault::Host},
      {"http://good.example@evil.example/", TargetFault::Userinfo},
      {"http://good.example:x@10.0.0.1/", TargetFault::Userinfo},
      {"http://good.example/#x", TargetFault::Fragment},
      {"http://good.example#@evil.example/", TargetFault::Fragment},
      {"http://good.example\\@evil.example/", TargetFault::BadByte},
      {"http://good.example/a b", TargetFault::BadByte},
      {"http://good.example/\r\nHost: evil", TargetFault::BadByte},
      {"http://gööd.example/", TargetFault::BadByte},
      {"http://good.example./", TargetFault::Host},
      {"http://2130706433/", TargetFault::Host},
      {"http://[::ffff:127.0.0.1]/", TargetFault::Host},
      {"http://good.example:/", TargetFault::PortBad},
      {"http://good.example:99999/", TargetFault::PortBad},
      {"http://good.example%2f/", TargetFault::Host},
  };
  for (const auto& [text, fault] : rows) {
    const auto target = parse_proxy_target("GET", text);
    ASSERT_FALSE(target) << text;
    EXPECT_EQ(to_string(target.error().fault), to_string(fault)) << text;
  }
  const std::string longest = "http://a.example/" + std::string(kTargetBytesMax - 17, 'a');
  EXPECT_TRUE(parse_absolute_target(longest));
  EXPECT_EQ(parse_absolute_target(longest + "a").error().fault, TargetFault::TooLong);
  const auto target = parse_proxy_target("GET", "HTTP://Good.Example:8080/a?b=//c@d");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->host.text(), "good.example");
  EXPECT_EQ(target->port, 8080);
  EXPECT_EQ(target->path, "/a?b=//c@d");
  EXPECT_EQ(parse_absolute_target("http://a.example")->path, "/");
  EXPECT_EQ(parse_absolute_target("http://a.example?q")->path, "/?q");
  EXPECT_EQ(parse_proxy_target("CONNECT", "a.example:1")->port, 1);
}

TEST(ProxyTarget, TheHostFieldAgreesOnEveryRequest) {
  const ProxyTarget target = *parse_absolute_target("http://good.example/");
  const auto check = [&](std::vector<std::string_view> values,
                         HostFieldRule rule = HostFieldRule::Required) {
    const auto checked = check_host_field(target, values, rule, kHttpPort);
    return checked ? std::string_view("good") : to_string(checked.error().fault);
  };
  EXPECT_EQ(check({}), to_string(TargetFault::HostFieldMissing));
  EXPECT_EQ(check({"good.example", "good.example"}), to_string(TargetFault::HostFieldTwice));
  for (const std::string_view other :
       {"evil.example", "good.example.evil.example", "xgood.example", "good.example:81"}) {
    EXPECT_EQ(check({other}), to_string(TargetFault::HostFieldOther)) << other;
  }
  for (const std::string_view bad :
       {""sv, "good.example."sv, "good.example,evil.example"sv, "evil@good.example"sv,
        "good.example:"sv, "127.0.0.1"sv, "good.example\0"sv, "good.example "sv}) {
    EXPECT_EQ(check({bad}), to_string(TargetFault::HostFieldBad)) << bad;
  }
  EXPECT_EQ(check({"GOOD.example"}), "good");
  EXPECT_EQ(check({"good.example:80"}), "good");
  EXPECT_EQ(check({}, HostFieldRule::Optional), "good");
  const ProxyTarget tunnel = *parse_connect_target("good.example:443");
  const std::vector<std::string_view> bare = {"good.example"};
  EXPECT_TRUE(check_host_field(tunnel, bare, HostFieldRule::Optional, std::nullopt));
  EXPECT_FALSE(check_host_field(tunnel, bare, HostFieldRule::Optional, kHttpPort));
}

TEST(ProxyTarget, OnAKnownConnectionThereIsOnlyAPath) {
  const HostName host = *HostName::parse("good.example");
  for (const std::string_view text : {"http://evil.example/"sv, "*"sv, "a"sv, ""sv, "/#x"sv}) {
    EXPECT_FALSE(parse_origin_target(text, host, 80)) << text;
  }
  EXPECT_EQ(parse_origin_target("/a?b", host, 80)->path, "/a?b");
}

TEST(ProxyTarget, PathsThatReadInTwoWays) {
  for (const std::string_view path :
       {""sv,       "a"sv,        "/a/../b"sv, "/a/.."sv,       "/.."sv,       "/./a"sv,
        "/."sv,     "/a//b"sv,    "//a"sv,     "/a/%2e%2e/b"sv, "/a/%2E./b"sv, "/a%2fb"sv,
        "/a%5cb"sv, "/a%00"sv,    "/a%"sv,     "/a%2"sv,        "/a%zz"sv,     "/a%252e"sv,
        "/a\\b"sv,  "/a;/../b"sv, "/a%0d%0a"sv}) {
    EXPECT_FALSE(is_plain_path(path)) << path;
  }
  for (const std::string_view path :
       {"/"sv, "/a"sv, "/a/"sv, "/a.b/..c"sv, "/a%20b"sv, "/a?b=/../%2e%"sv, "/@scope%40x"sv}) {
    EXPECT_TRUE(is_plain_path(path)) << path;
  }
}

}  // namespace
}  // namespace caisson::egress
