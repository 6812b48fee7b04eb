// policy/settings/egress_settings.h — how everything that leaves sandboxes leaves: name servers,
// trust, tokens, secrets, and what language models may cost. A secret is only named here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/settings/listen_address.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

inline constexpr std::size_t kDnsServersMax = 8;
inline constexpr std::size_t kPricesMax = 512;
inline constexpr std::size_t kModelBytesMax = 128;
inline constexpr std::size_t kTenantBytesMax = 256;
inline constexpr double kPriceUsdMax = 1e6;  // for a million tokens

// A provider of language models, reached from inside by an address of ours. Without a key's name it
// is off.
struct GatewaySettings {
  std::string upstream;     // "https://api.example.com", without a path
  std::string key_secret;   // the name of the secret that is the provider's key
  std::string path_prefix;  // put before the path that a guest asks for: "/v1", or empty

  [[nodiscard]] bool enabled() const noexcept { return !key_secret.empty(); }
  friend bool operator==(const GatewaySettings&, const GatewaySettings&) = default;
};

struct PriceSettings {
  std::string model;  // a name, or its beginning and '*'
  double input_per_million_usd = 0;
  double output_per_million_usd = 0;
  std::optional<double> cached_input_per_million_usd;  // not said: as other input
  std::optional<double> cache_write_per_million_usd;   // not said: as other input

  friend bool operator==(const PriceSettings&, const PriceSettings&) = default;
};

// Of one tenant, over all its sandboxes.
struct BudgetSettings {
  std::optional<std::int64_t> max_tokens;
  std::optional<double> max_cost_usd;

  friend bool operator==(const BudgetSettings&, const BudgetSettings&) = default;
};

using Prices = std::vector<PriceSettings>;
using Budgets = std::map<std::string, BudgetSettings>;

struct EgressSettings {
  std::vector<ListenAddress> dns_servers;  // empty: those of the host's resolv.conf
  std::string trust_store;                 // empty: the system's
  std::optional<ListenAddress> host_port;  // a proxy on the host, for holders of a token; not said:
                                           // none
  std::string jwt_secret_file;             // empty: a key in the state directory
  std::string secrets_file;                // empty: in the state directory
  std::string secrets_key_file;            // empty: in the state directory
  GatewaySettings openai{"https://api.openai.com", "", "/v1"};
  GatewaySettings anthropic{"https://api.anthropic.com", "", ""};
  Prices prices;
  Budgets budgets;  // by tenant

  friend bool operator==(const EgressSettings&, const EgressSettings&) = default;
};

// An address and a port that are somewhere: no unix socket, and for a server of names no port 0.
enum class PortZero : std::uint8_t { Refused, Allowed };
[[nodiscard]] Result<ListenAddress> read_address(const YamlNode& node, std::string_view path,
                                                 PortZero zero);
[[nodiscard]] Result<std::vector<ListenAddress>> read_dns_servers(const YamlNode& node,
                                                                  std::string_view path);
// Empty: none.
[[nodiscard]] Result<std::optional<ListenAddress>> read_host_port(const YamlNode& node,
                                                                  std::string_view path);
// Clear text only to this machine: the provider's key goes there.
[[nodiscard]] Result<std::string> read_upstream(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<std::string> read_key_secret(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<std::string> read_upstream_prefix(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<Prices> read_prices(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<Budgets> read_budgets(const YamlNode& node, std::string_view path);

// As YAML values, four spaces in.
[[nodiscard]] std::string print_addresses(const std::vector<ListenAddress>& addresses);
[[nodiscard]] std::string print_prices(const Prices& prices);
[[nodiscard]] std::string print_budgets(const Budgets& budgets);

}  // namespace caisson::policy
