#include "egress/credentials/jwt.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <string>

#include "base/base64.h"
#include "egress/wire/rules.h"
#include "policy/egress.h"

namespace caisson::egress {
namespace {

constexpr std::string_view kKey = "0123456789abcdef0123456789abcdef";
constexpr std::string_view kHead = R"({"typ":"JWT","alg":"HS256"})";
const WallTime kNow{std::chrono::seconds(1'900'000'000)};

Secret key(std::string_view text = kKey) { return std::move(*Secret::copy_of(text)); }

std::string url(std::string_view bytes) {
  std::string out = to_base64(bytes);
  while (out.ends_with('=')) out.pop_back();
  for (char& c : out) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return out;
}

// Any header and claims with a signature that fits, whatever they say.
std::string signed_token(std::string_view head, std::string_view claims,
                         std::string_view with = kKey) {
  std::string text = url(head) + '.' + url(claims);
  std::array<unsigned char, 32> mac{};
  unsigned size = 0;
  HMAC(EVP_sha256(), with.data(), static_cast<int>(with.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size);
  return text + '.' + url({reinterpret_cast<const char*>(mac.data()), size});
}

std::string claims_with(std::string_view hosts, std::string_view end = "2000000000") {
  return R"({"iss":"sandbox-egress-control","session_id":"s-1","tenant_id":null,"allowed_hosts":)" +
         std::string(hosts) + R"(,"exp":)" + std::string(end) + "}";
}

TokenFault fault_of(const std::string& token) {
  const auto claims = verify_token(key(), token, kNow);
  EXPECT_FALSE(claims) << token;
  return claims ? TokenFault::TooLong : claims.error();
}

// --- what must not pass ---

TEST(Token, OnlyOneAlgorithmIsBelieved) {
  const std::string claims = claims_with("\"a.example\"");
  for (const std::string_view head :
       {R"({"typ":"JWT","alg":"none"})", R"({"typ":"JWT","alg":"None"})",
        R"({"typ":"JWT","alg":"RS256"})", R"({"typ":"JWT","alg":"HS512"})",
        R"({"typ":"JWT","alg":"hs256"})", R"({"typ":"JWT","alg":["HS256"]})",
        R"({"typ":"JWT","alg":null})", R"({"typ":"JWT"})"}) {
    EXPECT_EQ(fault_of(signed_token(head, claims)), TokenFault::Algorithm) << head;
  }
  const std::string none = url(R"({"alg":"none"})") + '.' + url(claims) + '.';
  EXPECT_EQ(fault_of(none), TokenFault::Algorithm);
}

TEST(Token, AnAlteredOneIsRefused) {
  const std::string good = signed_token(kHead, claims_with("\"a.example\""));
  ASSERT_TRUE(verify_token(key(), good, kNow));
  const std::string other = signed_token(kHead, claims_with("\"b.example\""));
  const std::size_t end = good.rfind('.');
  EXPECT_EQ(fault_of(other.substr(0, other.rfind('.')) + good.substr(end)), TokenFault::Signature);
  EXPECT_EQ(fault_of(good.substr(0, end + 1)), TokenFault::Signature);
  EXPECT_EQ(fault_of(good.substr(0, end + 1) + url("short")), TokenFault::Signature);
  EXPECT_EQ(fault_of(signed_token(kHead, claims_with("\"a\""), "another key of 32 bytes, or more")),
            TokenFault::Signature);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = bad[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(verify_token(key(), bad, kNow)) << i;
  }
}

TEST(Token, ATokenHasAnEnd) {
  EXPECT_EQ(fault_of(signed_token(kHead, claims_with("\"a\"", "1899999999"))), TokenFault::Expired);
  EXPECT_TRUE(verify_token(key(), signed_token(kHead, claims_with("\"a\"", "1900000000")), kNow));
  for (const char* end : {"null", "\"2000000000\"", "2e9", "-1", "18446744073709551615"})
    EXPECT_EQ(fault_of(signed_token(kHead, claims_with("\"a\"", end))), TokenFault::Expired) << end;
  EXPECT_EQ(fault_of(signed_token(kHead, R"({"iss":"sandbox-egress-control","session_id":"s",
                                            "allowed_hosts":"a"})")),
            TokenFault::Expired);
}

TEST(Token, OtherShapesAreRefused) {
  const std::string good = signed_token(kHead, claims_with("\"a.example\""));
  for (const std::string& token :
       {std::string(), std::string("."), std::string(".."), std::string("a.b"), good + ".x",
        good + "=", "=" + good, ' ' + good, good + '\n', "jwt_" + good,
        signed_token("[]", claims_with("\"a\"")), signed_token("{", claims_with("\"a\"")),
        signed_token(kHead, "{"), signed_token(kHead, "[]"),
        signed_token(kHead, "[[[[[[[[]]]]]]]]")}) {
    EXPECT_EQ(fault_of(token), TokenFault::Malformed) << token;
  }
  EXPECT_EQ(fault_of(std::string(kTokenBytesMax + 1, 'a')), TokenFault::TooLong);
  for (const char* hosts : {"5", "null", "{}", "[1]", "[[\"a\"]]"})
    EXPECT_EQ(fault_of(signed_token(kHead, claims_with(hosts))), TokenFault::Claims) << hosts;
  for (const char* claims :
       {R"({"session_id":"s","allowed_hosts":"a","exp":2000000000})",
        R"({"iss":"other","session_id":"s","allowed_hosts":"a","exp":2000000000})",
        R"({"iss":"sandbox-egress-control","allowed_hosts":"a","exp":2000000000})",
        R"({"iss":"sandbox-egress-control","session_id":"","allowed_hosts":"a","exp":2000000000})",
        R"({"iss":"sandbox-egress-control","session_id":5,"allowed_hosts":"a","exp":2000000000})",
        R"({"iss":"sandbox-egress-control","session_id":"s","exp":2000000000})",
        R"({"iss":"sandbox-egress-control","session_id":"s","tenant_id":5,"allowed_hosts":"a",
            "exp":2000000000})"}) {
    EXPECT_EQ(fault_of(signed_token(kHead, claims)), TokenFault::Claims) << claims;
  }
  std::string many = "a";
  for (std::size_t i = 0; i < kTokenHostsMax; ++i) many += ",a";
  EXPECT_EQ(fault_of(signed_token(kHead, claims_with('"' + many + '"'))), TokenFault::Claims);
}

TEST(Token, AShortKeySignsAndProvesNothing) {
  const Secret weak = key("short");
  EXPECT_FALSE(mint_token(weak, {"s", {}, {}, 2'000'000'000}));
  const std::string token = signed_token(kHead, claims_with("\"a\""), "short");
  EXPECT_EQ(verify_token(weak, token, kNow).error(), TokenFault::Signature);
  EXPECT_EQ(mint_token(key(), {"s", {}, {"a,b"}, 5}).error().field, "allowed_hosts");
  EXPECT_FALSE(mint_token(key(), {"s", {}, {std::string(kTokenBytesMax, 'a')}, 5}));
}

TEST(Token, AnotherProxyAuthorizationHoldsNone) {
  for (const std::string& field :
       {std::string(), std::string("Basic"), std::string("Basic "),
        "Bearer " + to_base64("u:jwt_x"), "Basic " + to_base64("jwt_x"),
        "Basic " + to_base64("u:x"), "Basic " + to_base64("u:JWT_x"),
        "Basic !" + to_base64("u:jwt_x"), "Basic" + to_base64("u:jwt_x"),
        "Basic " + to_base64("u:jwt_" + std::string(2 * kTokenBytesMax, 'x'))}) {
    EXPECT_FALSE(token_of(field)) << field;
  }
}

TEST(TokenHosts, WhatNeverMatchesThereOpensNothingHere) {
  for (const char* host :
       {"*", "*example.com", "example.com:443", "example.com.", "[::1]", "::1", "127.0.0.1", "",
        "localhost", "LOCALHOST", "*.localhost", "a.localhost", "user@example.com", "a b", "*.*"}) {
    EXPECT_TRUE(rules_of_hosts({host}).empty()) << host;
  }
}

// --- what must ---

TEST(Token, IsTheContractsByteForByte) {
  const ProxyClaims claims{"s-1", {}, {"pypi.org", "*.example.com"}, 2'000'000'000};
  const auto token = mint_token(key(), claims);
  ASSERT_TRUE(token) << token.error().message;
  EXPECT_EQ(*token,
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9."
            "eyJpc3MiOiJzYW5kYm94LWVncmVzcy1jb250cm9sIiwic2Vzc2lvbl9pZCI6InMtMSIsInRlbmFudF9pZCI6bn"
            "VsbCwiYWxsb3dlZF9ob3N0cyI6InB5cGkub3JnLCouZXhhbXBsZS5jb20iLCJleHAiOjIwMDAwMDAwMDB9."
            "DgxdDG4PXgIFaSl9XrOHYA1trlZGkRAT7RamdTk7Frg");
  const auto back = verify_token(key(), *token, kNow);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, claims);
}

TEST(Token, HostsMayBeATextOrAList) {
  const auto text = verify_token(key(), signed_token(kHead, claims_with("\" a , b,, \"")), kNow);
  ASSERT_TRUE(text);
  EXPECT_EQ(text->allowed_hosts, (std::vector<std::string>{"a", "b"}));
  const auto list = verify_token(key(), signed_token(kHead, claims_with("[\"a\",\" b \"]")), kNow);
  ASSERT_TRUE(list);
  EXPECT_EQ(list->allowed_hosts, text->allowed_hosts);
  EXPECT_TRUE(
      verify_token(key(), signed_token(kHead, claims_with("\"\"")), kNow)->allowed_hosts.empty());
  const auto minted = mint_token(key(), {"s\"é", "t", {}, 2'000'000'000});
  ASSERT_TRUE(minted);
  EXPECT_EQ(verify_token(key(), *minted, kNow)->session_id, "s\"é");
  EXPECT_EQ(verify_token(key(), *minted, kNow)->tenant_id, "t");
}

TEST(Token, IsFoundInTheProxysPassword) {
  EXPECT_EQ(token_of("Basic " + to_base64("sandbox:jwt_a.b.c")), "a.b.c");
  EXPECT_EQ(token_of("basic  " + to_base64(":jwt_a:b")), "a:b");
}

TEST(TokenHosts, BecomeRulesOfThatDialect) {
  const auto rules = rules_of_hosts({"PyPI.org", "*.Example.com", "pypi.org", "localhost"});
  ASSERT_EQ(rules.size(), 2U);
  const policy::EgressFilter filter(rules);
  for (const char* there : {"https://pypi.org/", "http://example.com", "https://a.b.example.com"})
    EXPECT_TRUE(filter.is_allowed(there)) << there;
  for (const char* url_text : {"https://evilexample.com", "https://a.pypi.org", "ssh://pypi.org",
                               "https://pypi.org:8443", "http://localhost"}) {
    EXPECT_FALSE(filter.is_allowed(url_text)) << url_text;
  }
  EXPECT_TRUE(Rules::compile(rules)) << "they pass the policy's own checks";
}

}  // namespace
}  // namespace caisson::egress
