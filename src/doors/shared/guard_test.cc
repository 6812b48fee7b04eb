#include "doors/shared/guard.h"

#include <gtest/gtest.h>

namespace caisson::doors {
namespace {

TEST(HostRules, OnlyNamesOfThisServer) {
  HostRules rules;
  rules.names = {"localhost", "127.0.0.1:8080", "[::1]:8080", "box.example"};
  for (const auto* host :
       {"evil.example", "", "localhost.evil.example", "127.0.0.1:8081", "127.0.0.1",
        "127.0.0.2:8080", "[::1]", "[::1", "localhost:", "localhost:x", "localhost:123456",
        "localhost:80:80", "user@localhost", "localhost/", ":8080", " localhost", "10.0.0.1"}) {
    EXPECT_FALSE(rules.allows_host(host)) << host;
  }
  for (const auto* host : {"localhost", "LOCALHOST:8080", "localhost:1", "127.0.0.1:8080",
                           "[::1]:8080", "box.example:443"}) {
    EXPECT_TRUE(rules.allows_host(host)) << host;
  }
  rules.any_address = true;
  EXPECT_TRUE(rules.allows_host("10.0.0.1:8080"));
  EXPECT_TRUE(rules.allows_host("[fe80::1]:1"));
  EXPECT_FALSE(rules.allows_host("10.0.0.1.evil.example"));
  EXPECT_FALSE(rules.allows_host("evil.example"));
}

TEST(Guard, NothingOfASandboxIsPartOfOurPages) {
  const auto asks = [](const char* site, const char* use) {
    http::Request request;
    request.fields = {{"Sec-Fetch-Site", site}, {"Sec-Fetch-Dest", use}};
    return is_for_our_page(request);
  };
  for (const auto* use : {"script", "style", "worker", "sharedworker", "serviceworker", "xslt"}) {
    EXPECT_TRUE(asks("same-origin", use)) << use;
    EXPECT_FALSE(asks("cross-site", use)) << "a page of a sandbox has no origin of ours";
  }
  for (const auto* use : {"empty", "document", "iframe", "image", ""}) {
    EXPECT_FALSE(asks("same-origin", use)) << use;
  }
  EXPECT_FALSE(is_for_our_page({}));
}

TEST(HostRules, OnlyPagesOfThisServer) {
  HostRules rules;
  rules.names = {"localhost"};
  rules.origins = {"https://console.example"};
  for (const auto* origin : {"null", "", "http://evil.example", "http://localhost:3000",
                             "http://localhost:8080.evil.example", "file://", "localhost:8080",
                             "http://localhost:8080/", "https://console.example.evil"}) {
    EXPECT_FALSE(rules.allows_origin(origin, "localhost:8080")) << origin;
  }
  EXPECT_TRUE(rules.allows_origin("http://localhost:8080", "localhost:8080"));
  EXPECT_TRUE(rules.allows_origin("https://LOCALHOST:8080", "localhost:8080"));
  EXPECT_TRUE(rules.allows_origin("https://console.example", "localhost:8080"));
}

http::Request with(std::vector<http::Field> fields, bool websocket = false) {
  http::Request request;
  request.fields = std::move(fields);
  request.wants_websocket = websocket;
  return request;
}

TEST(Credential, OneTokenFromOnePlace) {
  EXPECT_EQ(*credential_of(with({})), "");
  EXPECT_EQ(*credential_of(with({{"authorization", "bearer  abc "}})), "abc");
  EXPECT_EQ(*credential_of(with({{"X-API-Key", "abc"}})), "abc");
  EXPECT_EQ(*credential_of(with({{"Authorization", "Bearer abc"}, {"X-API-Key", "abc"}})), "abc");
  EXPECT_EQ(credential_of(with({{"Authorization", "Bearer a"}, {"X-API-Key", "b"}})).error().code,
            Errc::InvalidArgument);
  EXPECT_EQ(credential_of(with({{"Authorization", "Bearer a"}, {"Authorization", "Bearer a"}}))
                .error()
                .code,
            Errc::InvalidArgument);
  EXPECT_EQ(credential_of(with({{"Authorization", "Basic abc"}})).error().code,
            Errc::Unauthenticated);
  EXPECT_EQ(*credential_of(with({{"Cookie", "token=abc"}})), "");
  EXPECT_FALSE(credential_of(with({{"X-API-Key", std::string(kCredentialBytesMax + 1, 'a')}})));
}

TEST(Credential, AWebSocketMayOfferItsToken) {
  const std::vector<http::Field> fields{
      {"Sec-WebSocket-Protocol", "caisson, caisson.token.abc,chat"}};
  EXPECT_EQ(*credential_of(with(fields, true)), "abc");
  EXPECT_EQ(*credential_of(with(fields, false)), "");
  EXPECT_EQ(offered_protocols(with(fields, true)), (std::vector<std::string>{"caisson", "chat"}));
  auto both = fields;
  both.push_back({"Authorization", "Bearer other"});
  EXPECT_FALSE(credential_of(with(both, true)));
}

}  // namespace
}  // namespace caisson::doors
