#include "policy/settings/egress_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "policy/capability.h"
#include "policy/rule_checks.h"
#include "policy/settings/setting_fields.h"
#include "policy/settings/setting_value.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

using namespace setting;  // NOLINT(google-build-using-namespace): the words of this file

constexpr std::size_t kAddressBytesMax = 64;
constexpr std::size_t kUpstreamBytesMax = 300;

Result<double> read_price(const YamlNode& node, std::string_view path) {
  return read_fraction(node, path, 0, kPriceUsdMax);
}

// A price while it is read: what was not said must not pass for free.
struct PriceDraft {
  std::string model;
  std::optional<double> input, output, cached_input, cache_write;
};

Result<void> read_model(const YamlNode& node, std::string_view path, PriceDraft& out) {
  out.model = TRY(read_text(node, path, kModelBytesMax));
  const auto fits = [](char c) { return c > ' ' && c < 0x7f; };
  if (!out.model.empty() && std::ranges::all_of(out.model, fits) &&
      out.model.find('*') >= out.model.size() - 1) {
    return {};
  }
  return wrong(node, path,
               fmt::format("want the name of a model, or its beginning and '*' as in gpt-4o*, "
                           "found {}",
                           in_quotes(out.model)));
}

template <std::optional<double> PriceDraft::* member>
Result<void> read_price_field(const YamlNode& node, std::string_view path, PriceDraft& out) {
  out.*member = TRY(read_price(node, path));
  return {};
}

constexpr std::array<Field<PriceDraft>, 5> kPriceFields = {{
    {"model", read_model},
    {"input_per_million_usd", read_price_field<&PriceDraft::input>},
    {"output_per_million_usd", read_price_field<&PriceDraft::output>},
    {"cached_input_per_million_usd", read_price_field<&PriceDraft::cached_input>},
    {"cache_write_per_million_usd", read_price_field<&PriceDraft::cache_write>},
}};

constexpr std::array<Field<BudgetSettings>, 2> kBudgetFields = {{
    {"max_tokens",
     [](const YamlNode& node, std::string_view path, BudgetSettings& out) -> Result<void> {
       out.max_tokens = TRY(read_whole(node, path, 1, kTokensMax));
       return {};
     }},
    {"max_cost_usd",
     [](const YamlNode& node, std::string_view path, BudgetSettings& out) -> Result<void> {
       out.max_cost_usd = TRY(read_fraction(node, path, kFractionMin, kCostUsdMax));
       return {};
     }},
}};

// "127.0.0.1", "[::1]:9", "localhost:9"; but not 127.example.com, which is somebody's name.
bool is_this_machine(std::string_view authority) {
  if (authority == "localhost" || authority.starts_with("localhost:")) return true;
  const bool with_port = authority.find(':', authority.find(']') + 1) != std::string_view::npos;
  const auto address = parse_listen_address(std::string(authority) + (with_port ? "" : ":80"));
  return address && address->is_local();
}

// The environment has no way to write a mapping or a list of them.
Result<void> require_file(const YamlNode& node, std::string_view path) {
  if (node.at.line != 0) return {};
  return wrong(node, path, "stands in the file only");
}

}  // namespace

Result<ListenAddress> read_address(const YamlNode& node, std::string_view path, PortZero zero) {
  const std::string text = TRY(read_text(node, path, kAddressBytesMax));
  ListenAddress address = TRY(placed(node, path, parse_listen_address(text)));
  if (address.family == ListenAddress::Family::Unix)
    return wrong(node, path, "want ADDRESS:PORT, not a unix socket");
  if (address.port == 0 && zero == PortZero::Refused)
    return wrong(node, path, fmt::format("{}: nobody answers on port 0", in_quotes(text)));
  return address;
}

Result<std::vector<ListenAddress>> read_dns_servers(const YamlNode& node, std::string_view path) {
  TRY(require_list(node, path, kDnsServersMax));
  std::vector<ListenAddress> out;
  out.reserve(node.items.size());
  for (const YamlNode& item : node.items)
    out.push_back(TRY(read_address(item, path, PortZero::Refused)));
  return out;
}

Result<std::optional<ListenAddress>> read_host_port(const YamlNode& node, std::string_view path) {
  if (node.kind == YamlNode::Kind::Scalar && node.text.empty()) return std::nullopt;
  return TRY(read_address(node, path, PortZero::Allowed));
}

Result<std::string> read_upstream(const YamlNode& node, std::string_view path) {
  const std::string text = TRY(read_text(node, path, kUpstreamBytesMax));
  std::string origin = TRY(placed(node, path, parse_origin(text)));
  if (origin.starts_with("https://")) return origin;
  if (is_this_machine(std::string_view(origin).substr(std::string_view("http://").size())))
    return origin;
  return wrong(node, path,
               fmt::format("{}: the key would travel in clear text; write https://", origin));
}

Result<std::string> read_key_secret(const YamlNode& node, std::string_view path) {
  std::string text = TRY(read_text(node, path, kSecretNameBytesMax));
  if (text.empty()) return text;
  return placed(node, path, check_secret_name(text));
}

Result<std::string> read_upstream_prefix(const YamlNode& node, std::string_view path) {
  std::string text = TRY(read_text(node, path, kPathPrefixBytesMax));
  if (text.empty()) return text;
  if (text.ends_with('/')) return wrong(node, path, "ends with '/'; write it without");
  return placed(node, path, check_path_prefix(text));
}

Result<Prices> read_prices(const YamlNode& node, std::string_view path) {
  TRY(require_file(node, path));
  TRY(require_list(node, path, kPricesMax));
  Prices prices;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const std::string where = fmt::format("{}[{}]", path, i);
    PriceDraft draft;
    TRY(read_fields(item, where, kPriceFields, draft));
    if (draft.model.empty()) return wrong(item, where, "has no model");
    if (!draft.input) return wrong(item, where, "has no input_per_million_usd");
    if (!draft.output) return wrong(item, where, "has no output_per_million_usd");
    if (std::ranges::find(prices, draft.model, &PriceSettings::model) != prices.end())
      return wrong(item, where, fmt::format("{} has a price already", in_quotes(draft.model)));
    prices.push_back({std::move(draft.model), *draft.input, *draft.output, draft.cached_input,
                      draft.cache_write});
  }
  return prices;
}

Result<Budgets> read_budgets(const YamlNode& node, std::string_view path) {
  TRY(require_file(node, path));
  Budgets budgets;
  if (node.kind == YamlNode::Kind::Null) return budgets;
  if (node.kind != YamlNode::Kind::Mapping) return wrong_type(node, path, "a mapping");
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& tenant = node.keys[i].name;
    YamlNode at;
    at.at = node.keys[i].at;
    const bool named = !tenant.empty() && tenant.size() <= kTenantBytesMax &&
                       std::ranges::none_of(tenant, is_control) && is_utf8(tenant);
    if (!named) {
      return wrong(at, path,
                   fmt::format("{} is no name of a tenant: at most {} bytes, no control characters",
                               in_quotes(tenant), kTenantBytesMax));
    }
    const std::string full = fmt::format("{}.{}", path, printable(tenant));
    BudgetSettings budget;
    TRY(read_fields(node.items[i], full, kBudgetFields, budget));
    if (!budget.max_tokens && !budget.max_cost_usd)
      return wrong(at, full, "has no limit; write max_tokens, max_cost_usd or both");
    budgets[tenant] = budget;
  }
  return budgets;
}

std::string print_addresses(const std::vector<ListenAddress>& addresses) {
  std::vector<std::string> texts;
  texts.reserve(addresses.size());
  for (const ListenAddress& one : addresses) texts.push_back(to_string(one));
  return print_list(texts, 4);
}

std::string print_prices(const Prices& prices) {
  if (prices.empty()) return "[]";
  std::string out;
  for (const PriceSettings& price : prices) {
    out += fmt::format("\n    - model: {}", print_text(price.model));
    out += fmt::format("\n      input_per_million_usd: {}", price.input_per_million_usd);
    out += fmt::format("\n      output_per_million_usd: {}", price.output_per_million_usd);
    if (price.cached_input_per_million_usd) {
      out += fmt::format("\n      cached_input_per_million_usd: {}",
                         *price.cached_input_per_million_usd);
    }
    if (price.cache_write_per_million_usd) {
      out += fmt::format("\n      cache_write_per_million_usd: {}",
                         *price.cache_write_per_million_usd);
    }
  }
  return out;
}

std::string print_budgets(const Budgets& budgets) {
  if (budgets.empty()) return "{}";
  std::string out;
  for (const auto& [tenant, budget] : budgets) {
    out += fmt::format("\n    {}:", print_text(tenant));
    if (budget.max_tokens) out += fmt::format("\n      max_tokens: {}", *budget.max_tokens);
    if (budget.max_cost_usd) out += fmt::format("\n      max_cost_usd: {}", *budget.max_cost_usd);
  }
  return out;
}

}  // namespace caisson::policy
