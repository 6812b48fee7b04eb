#include <gtest/gtest.h>

#include "control/network_rules.h"
#include "control/records.h"
#include "control/volume_shelf.h"
#include "egress/credentials/jwt.h"

namespace caisson::control {
namespace {

std::string refused(const NetworkWish& wish) {
  const auto manner = proxy_manner_of(wish, {});
  EXPECT_FALSE(manner);
  return manner ? "" : manner.error().field;
}

TEST(ProxyManner, APlaceThatIsNone) {
  NetworkWish wish;
  for (const std::uint16_t port : {std::uint16_t{0}, std::uint16_t{53}}) {
    wish.proxy = ProxyPlace{"egress-proxy", port};
    EXPECT_EQ(refused(wish), "network.proxy.port");
  }
  for (const char* host : {"", "10.0.0.1", "::1", "127.1", "a b", "x.", "*.x", "a@b", "a:1"}) {
    wish.proxy = ProxyPlace{host, 15004};
    EXPECT_EQ(refused(wish), "network.proxy.host") << host;
  }
}

TEST(ProxyManner, WordsThatAreNone) {
  NetworkWish wish;
  for (const std::string& word : {std::string(), std::string("a,b"), std::string("a\nb"),
                                  std::string("\xff"), std::string(129, 'x')}) {
    wish.words = TokenWords{word, std::nullopt, {}};
    EXPECT_EQ(refused(wish), "network.words.session_id");
    wish.words = TokenWords{"s", word, {}};
    EXPECT_EQ(refused(wish), "network.words.tenant_id");
  }
  wish.words = TokenWords{"s", std::nullopt, {"a", "b,c"}};
  EXPECT_EQ(refused(wish), "network.words.allowed_hosts");
  wish.words->allowed_hosts.assign(egress::kTokenHostsMax + 1, "a");
  EXPECT_EQ(refused(wish), "network.words.allowed_hosts");
  wish.words->allowed_hosts.pop_back();
  EXPECT_TRUE(proxy_manner_of(wish, {}));
}

TEST(ProxyManner, AWishLiesOverItsProfile) {
  NetworkWish profile;
  profile.variables = false;
  profile.proxy = ProxyPlace{"Egress-Proxy", 1};
  EXPECT_EQ(proxy_manner_of({}, profile)->place, (ProxyPlace{"egress-proxy", 1}));
  EXPECT_FALSE(proxy_manner_of({}, profile)->variables);
  NetworkWish wish;
  wish.variables = true;
  wish.proxy = ProxyPlace{"127.0.0.1", 3128};
  const auto both = proxy_manner_of(wish, profile);
  ASSERT_TRUE(both);
  EXPECT_TRUE(both->variables);
  EXPECT_EQ(both->place, wish.proxy);
  EXPECT_EQ(proxy_manner_of({}, {}), ProxyManner{});
}

TEST(ProxyManner, IsFixedOnceASandboxLives) {
  ProxyManner kept;
  kept.place = ProxyPlace{"egress-proxy", 15004};
  NetworkWish wish;
  EXPECT_TRUE(check_proxy_kept(wish, kept));
  wish.proxy = ProxyPlace{"EGRESS-proxy", 15004};
  EXPECT_TRUE(check_proxy_kept(wish, kept));
  wish.proxy->port = 1;
  EXPECT_EQ(check_proxy_kept(wish, kept).error().field, "network.proxy");
  wish = {};
  wish.variables = false;
  EXPECT_EQ(check_proxy_kept(wish, kept).error().field, "network.variables");
  wish = {};
  wish.words = TokenWords{"s", std::nullopt, {}};
  EXPECT_EQ(check_proxy_kept(wish, kept).error().field, "network.words");
}

TEST(ProxyManner, FourVariablesAndNoMore) {
  const std::string value = "http://sandbox:jwt_a.b.c@egress-proxy:15004";
  EXPECT_EQ(way_out_environment("a.b.c", {"egress-proxy", 15004}),
            (std::vector<std::string>{"HTTP_PROXY=" + value, "HTTPS_PROXY=" + value,
                                      "http_proxy=" + value, "https_proxy=" + value}));
  EXPECT_EQ(way_out_environment("", {"127.0.0.1", 1}).front(), "HTTP_PROXY=http://127.0.0.1:1");
}

TEST(ProxyManner, IsKeptInTheRecord) {
  KeptSpec spec;
  spec.token = true;
  spec.proxy.variables = false;
  spec.proxy.place = ProxyPlace{"egress-proxy", 15004};
  spec.proxy.words = TokenWords{"s", "t", {"b.example", "a.example", "a.example"}};
  spec.proxy_tokens = {{"ff", 5'000'000'000}, {"00", 2}};
  EXPECT_TRUE(spec.has_gate());
  const auto again = parse_kept_spec(to_json(spec));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, spec);
  spec.proxy.words->tenant_id.reset();
  EXPECT_EQ(*parse_kept_spec(to_json(spec)), spec);
  std::string text = to_json(spec);
  text.replace(text.find("15004"), 5, "65536");
  EXPECT_FALSE(parse_kept_spec(text));
}

TEST(VolumePlaces, TheWorkspaceIsOne) {
  EXPECT_TRUE(check_volumes({{"agentbox.0123456789abcdef.workspace", "/workspace", false}}));
  EXPECT_TRUE(check_volumes({{"a", "/workspace/", true}}));
  EXPECT_TRUE(check_volumes({{"a", "/workspace/deep", true}}));
  for (const char* place : {"/", "/etc", "/usr/x", "/tmp", "/workspace/../etc", "workspace"})
    EXPECT_FALSE(check_volumes({{"a", place, false}})) << place;
  EXPECT_FALSE(check_volumes({{"a", "/workspace", false}, {"b", "/workspace/deep", false}}));
}

}  // namespace
}  // namespace caisson::control
