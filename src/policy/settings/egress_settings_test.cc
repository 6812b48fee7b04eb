#include "policy/settings/egress_settings.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/capability.h"
#include "policy/settings/settings.h"

namespace caisson::policy {
namespace {

void expect_refused(const std::string& egress, std::string_view part) {
  const auto result = parse_settings("egress: {" + egress + "}\n", "f");
  const std::string message = result ? "accepted: " + to_yaml(*result) : result.error().message;
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nwants: " << part;
}

std::string repeated(std::string_view item, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += (out.empty() ? "" : ", ") + std::string(item);
  return "[" + out + "]";
}

// --- what must not pass ---

TEST(EgressSettings, AddressesAreAddresses) {
  expect_refused("dns_servers: [9.9.9.9]", "want ADDRESS:PORT");
  expect_refused("dns_servers: ['dns.example:53']", "egress.dns_servers: ");
  expect_refused("dns_servers: ['9.9.9.9:0']", "port 0");
  expect_refused("dns_servers: ['unix:/a']", "not a unix socket");
  expect_refused("dns_servers: '9.9.9.9:53'", "must be a list");
  expect_refused("dns_servers: " + repeated("'9.9.9.9:53'", kDnsServersMax + 1), "too many");
  expect_refused("host_port: 15004", "want ADDRESS:PORT");
  expect_refused("host_port: 'unix:/run/x'", "not a unix socket");
  for (const char* name : {"trust_store", "jwt_secret_file", "secrets_file", "secrets_key_file"})
    expect_refused(std::string(name) + ": relative", "must be an absolute path");
}

// The provider's key goes there.
TEST(EgressSettings, AKeyNeverTravelsInClearText) {
  expect_refused("gateway: {openai: {upstream: 'http://api.example.com'}}", "clear text");
  expect_refused("gateway: {openai: {upstream: 'http://127.example.com'}}", "write https");
  expect_refused("gateway: {openai: {upstream: 'http://localhost.example.com'}}", "clear text");
  expect_refused("gateway: {openai: {upstream: 'https://a.example/v1'}}", "upstream");
  expect_refused("gateway: {openai: {upstream: 'https://u:p@a.example'}}", "upstream");
  expect_refused("gateway: {openai: {upstream: ''}}", "want an origin");
  expect_refused("gateway: {openai: {key_secret: 'a b'}}", "not the name of a secret");
  expect_refused("gateway: {openai: {key: x}}", "known fields: upstream, key_secret, path_prefix");
  expect_refused("gateway: {mistral: {}}", "known fields: openai, anthropic");
  expect_refused("gateway: {openai: {path_prefix: /v1/}}", "ends with '/'");
  expect_refused("gateway: {openai: {path_prefix: v1}}", "is not the beginning of a path");
}

TEST(EgressSettings, APriceIsWholeAndNotFreeByOversight) {
  const std::string both = "input_per_million_usd: 1, output_per_million_usd: 2";
  expect_refused("prices: [{" + both + "}]", "egress.prices[0]: has no model");
  expect_refused("prices: [{model: a, output_per_million_usd: 2}]", "no input_per_million_usd");
  expect_refused("prices: [{model: a, input_per_million_usd: 2}]", "no output_per_million_usd");
  expect_refused("prices: [{model: a, " + both + ", input: 3}]", "unknown field \"input\"");
  expect_refused("prices: [{model: a, " + both + "}, {model: a, " + both + "}]", "price already");
  for (const char* model : {"'*a'", "'a*b'", "'a**'", "''", "'a b'", "é"})
    expect_refused("prices: [{model: " + std::string(model) + ", " + both + "}]", "of a model");
  expect_refused("prices: [{model: a, input_per_million_usd: -1}]", "must be from 0");
  expect_refused("prices: [{model: a, input_per_million_usd: nan}]", "must be a decimal");
  expect_refused("prices: [{model: a, input_per_million_usd: 1e7}]", "must be from 0");
  expect_refused("prices: {}", "must be a list");
  expect_refused("prices: " + repeated("{}", kPricesMax + 1), "too many");
  expect_refused("prices: [{model: " + std::string(kModelBytesMax + 1, 'a') + "}]", "too many");
}

TEST(EgressSettings, ABudgetHasALimit) {
  expect_refused("budgets: {a: {}}", "has no limit");
  expect_refused("budgets: {a: 5}", "egress.budgets.a: must be a mapping");
  expect_refused("budgets: {a: {tokens: 5}}", "known fields: max_tokens, max_cost_usd");
  expect_refused("budgets: {a: {max_tokens: 0}}", "must be from 1");
  expect_refused("budgets: {a: {max_cost_usd: 0}}", "must be from");
  expect_refused("budgets: {'': {max_tokens: 1}}", "is no name of a tenant");
  expect_refused("budgets: {" + std::string(kTenantBytesMax + 1, 'a') + ": {max_tokens: 1}}",
                 "is no name of a tenant");
  expect_refused("budgets: []", "must be a mapping");
}

TEST(EgressSettings, ListsOfMappingsStandInTheFileOnly) {
  for (const char* name : {"CAISSON_EGRESS_PRICES=[]", "CAISSON_EGRESS_BUDGETS={}"}) {
    Settings settings;
    const auto applied = apply_environment(settings, std::vector<std::string>{name});
    ASSERT_FALSE(applied);
    EXPECT_NE(applied.error().message.find("stands in the file only"), std::string::npos);
  }
  Settings settings;
  EXPECT_FALSE(apply_environment(settings, std::vector<std::string>{"CAISSON_EGRESS_PROXY=x"}));
}

// --- what must ---

constexpr const char* kFull = R"(
egress:
  dns_servers: ["9.9.9.9:53", "[2620:fe::fe]:5353"]
  trust_store: /etc/ssl/certs
  host_port: "0.0.0.0:15004"
  jwt_secret_file: /etc/caisson/jwt
  secrets_file: /srv/secrets
  secrets_key_file: /etc/caisson/secrets.key
  gateway:
    openai: {upstream: "http://127.0.0.1:9", key_secret: openai.key, path_prefix: ""}
    anthropic: {upstream: "https://claude.example:8443", key_secret: a-2, path_prefix: /x/y}
  prices:
    - {model: "gpt-4o*", input_per_million_usd: 2.5, output_per_million_usd: 10}
    - model: "*"
      input_per_million_usd: 0.075
      output_per_million_usd: 0
      cached_input_per_million_usd: 1e-5
      cache_write_per_million_usd: 3
  budgets:
    default: {max_tokens: 5}
    'team "a"': {max_tokens: 7, max_cost_usd: 0.25}
)";

TEST(EgressSettings, EverySettingIsReadAndPrintedBack) {
  const auto settings = parse_settings(kFull, "f");
  ASSERT_TRUE(settings) << settings.error().message;
  const EgressSettings& egress = settings->egress;
  EXPECT_EQ(to_string(egress.dns_servers.at(1)), "[2620:fe::fe]:5353");
  EXPECT_EQ(egress.host_port->port, 15004);
  EXPECT_EQ(egress.openai, (GatewaySettings{"http://127.0.0.1:9", "openai.key", ""}));
  EXPECT_TRUE(egress.anthropic.enabled());
  EXPECT_EQ(egress.anthropic.path_prefix, "/x/y");
  EXPECT_EQ(egress.prices.at(0), (PriceSettings{"gpt-4o*", 2.5, 10, {}, {}}));
  EXPECT_EQ(egress.prices.at(1).cached_input_per_million_usd, 1e-5);
  EXPECT_EQ(egress.budgets.at("default"), (BudgetSettings{5, {}}));
  EXPECT_EQ(egress.budgets.at("team \"a\""), (BudgetSettings{7, 0.25}));
  const auto again = parse_settings(to_yaml(*settings), "printed");
  ASSERT_TRUE(again) << again.error().message << "\n" << to_yaml(*settings);
  EXPECT_EQ(*again, *settings) << to_yaml(*settings);
}

TEST(EgressSettings, ThisMachineMayBeCalledInClearText) {
  for (const char* upstream : {"http://127.0.0.1", "http://127.0.0.1:9", "http://[::1]",
                               "http://[::1]:9", "http://localhost", "http://localhost:9"}) {
    const auto settings = parse_settings(
        "egress: {gateway: {openai: {upstream: '" + std::string(upstream) + "'}}}", "f");
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_EQ(settings->egress.openai.upstream, upstream);
  }
}

TEST(EgressSettings, NothingIsOnByItself) {
  const EgressSettings egress;
  EXPECT_FALSE(egress.openai.enabled());
  EXPECT_FALSE(egress.anthropic.enabled());
  EXPECT_FALSE(egress.host_port);
  const auto off = parse_settings("egress: {host_port: ''}", "f");
  ASSERT_TRUE(off);
  EXPECT_EQ(*off, Settings());
}

TEST(EgressSettings, TheEnvironmentNamesThemToo) {
  Settings settings;
  const auto applied = apply_environment(
      settings, std::vector<std::string>{"CAISSON_EGRESS_DNS_SERVERS=1.1.1.1:53, 8.8.8.8:53",
                                         "CAISSON_EGRESS_GATEWAY_OPENAI_KEY_SECRET=k",
                                         "CAISSON_EGRESS_HOST_PORT=127.0.0.1:0"});
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(settings.egress.dns_servers.size(), 2U);
  EXPECT_EQ(settings.egress.openai.key_secret, "k");
  EXPECT_EQ(settings.egress.host_port->port, 0);
}

TEST(EgressSettings, ADifferenceIsNamed) {
  Settings after;
  after.egress.anthropic.key_secret = "k";
  EXPECT_EQ(reloadable_difference(Settings(), after).need_restart,
            std::vector<std::string>{"egress.gateway.anthropic.key_secret"});
}

}  // namespace
}  // namespace caisson::policy
