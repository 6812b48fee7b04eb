// How it works: yaml_tree turns the text into nodes that know their line; one table per mapping
// names its fields and the function that reads each; what a value may be is said in
// capability_checks.cc, and here only joined to a line.
#include "policy/capability_parser.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "policy/host_name.h"
#include "policy/lexical_path.h"
#include "policy/rule_checks.h"
#include "policy/wording.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

namespace {

// A field of the mapping that fills a T. `path` is the field's full name, for messages.
template <class T>
struct Field {
  std::string_view name;
  Result<void> (*read)(const YamlNode& node, std::string_view path, T& out);
};

std::unexpected<Error> wrong_type(const YamlNode& node, std::string_view path,
                                  std::string_view wanted) {
  return invalid_at(node.at, fmt::format("{} must be {}, found {}", path, wanted, describe(node)));
}

// The error of a check that knows the value but not where it stands.
template <class T>
Result<T> placed(const YamlNode& node, std::string_view path, Result<T> result) {
  if (result) return result;
  return invalid_at(node.at, fmt::format("{}: {}", path, result.error().message));
}

template <class T, std::size_t N>
Result<void> read_fields(const YamlNode& node, std::string_view path,
                         const std::array<Field<T>, N>& fields, T& out) {
  const std::string_view shown = path.empty() ? "the capability" : path;
  if (node.kind != YamlNode::Kind::Mapping) return wrong_type(node, shown, "a mapping");
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const YamlKey& key = node.keys[i];
    std::string known;
    const Field<T>* found = nullptr;
    for (const Field<T>& field : fields) {
      if (field.name == key.name) found = &field;
      known += (known.empty() ? "" : ", ") + std::string(field.name);
    }
    if (found == nullptr) {
      return invalid_at(key.at, fmt::format("unknown field {} in {}; known fields: {}",
                                            in_quotes(key.name), shown, known));
    }
    const std::string full = path.empty() ? key.name : fmt::format("{}.{}", path, key.name);
    TRY(found->read(node.items[i], full, out));
  }
  return {};
}

Result<void> require_list(const YamlNode& node, std::string_view path, std::size_t max) {
  if (node.kind != YamlNode::Kind::List) return wrong_type(node, path, "a list ([] for none)");
  if (node.items.size() <= max) return {};
  return invalid_at(node.at,
                    fmt::format("{} has {} entries, at most {}", path, node.items.size(), max));
}

Result<std::string_view> read_text(const YamlNode& node, std::string_view path) {
  if (node.kind != YamlNode::Kind::Scalar) return wrong_type(node, path, "a string");
  return std::string_view(node.text);
}

// Decimal digits only. 0x10 and 1_000 are numbers to some YAML readers and strings to others, and
// 010 is eight or ten.
Result<std::int64_t> read_whole(const YamlNode& node, std::string_view path, std::int64_t min,
                                std::int64_t max) {
  constexpr std::string_view kWanted = "a whole number";
  if (node.kind != YamlNode::Kind::Scalar || !node.plain) return wrong_type(node, path, kWanted);
  const std::string_view text = node.text;
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool leading_zero = digits.size() > 1 && digits.front() == '0';
  if (error == std::errc::invalid_argument || end != text.data() + text.size() || leading_zero) {
    return invalid_at(node.at,
                      fmt::format("{} must be {}, found {}", path, kWanted, in_quotes(node.text)));
  }
  if (error == std::errc::result_out_of_range) {
    return invalid_at(node.at, fmt::format("{}: must be from {} to {}, found {}", path, min, max,
                                           in_quotes(node.text)));
  }
  return placed(node, path, check_whole(value, min, max));
}

Result<double> read_fraction(const YamlNode& node, std::string_view path, double max) {
  constexpr std::string_view kWanted = "a finite decimal number";
  if (node.kind != YamlNode::Kind::Scalar || !node.plain) return wrong_type(node, path, kWanted);
  const std::string_view text = node.text;
  // from_chars reads "inf" and "nan" too, and those have letters of their own.
  const bool decimal_bytes = text.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!decimal_bytes || error == std::errc::invalid_argument || end != text.data() + text.size()) {
    return invalid_at(node.at,
                      fmt::format("{} must be {}, found {}", path, kWanted, in_quotes(node.text)));
  }
  if (error == std::errc::result_out_of_range) {
    return invalid_at(node.at, fmt::format("{}: must be greater than 0 and at most {}, found {}",
                                           path, decimal(max, 0), in_quotes(node.text)));
  }
  return placed(node, path, check_fraction(value, max));
}

Result<bool> read_truth(const YamlNode& node, std::string_view path) {
  if (node.kind == YamlNode::Kind::Scalar && node.plain) {
    if (node.text == "true") return true;
    if (node.text == "false") return false;
    return invalid_at(
        node.at, fmt::format("{} must be true or false, found {}", path, in_quotes(node.text)));
  }
  return wrong_type(node, path, "true or false");
}

// A list of texts, each judged by `check`.
Result<std::vector<std::string>> read_texts(const YamlNode& node, std::string_view path,
                                            std::size_t max,
                                            Result<std::string> (*check)(std::string_view)) {
  TRY(require_list(node, path, max));
  std::vector<std::string> out;
  for (const YamlNode& item : node.items) {
    const std::string_view text = TRY(read_text(item, path));
    out.push_back(TRY(placed(item, path, check(text))));
  }
  return out;
}

// --- network_egress_rules ---

Result<void> read_domain(const YamlNode& node, std::string_view path, NetworkEgressRule& rule) {
  const std::string_view text = TRY(read_text(node, path));
  rule.domain = TRY(placed(node, path, canonical_rule_domain(text)));
  return {};
}

Result<void> read_ports(const YamlNode& node, std::string_view path, NetworkEgressRule& rule) {
  TRY(require_list(node, path, kPortsPerRuleMax));
  for (const YamlNode& item : node.items) {
    const std::int64_t port = TRY(read_whole(item, path, 1, kPortMax));
    rule.ports.push_back(static_cast<std::uint16_t>(port));
  }
  return {};
}

Result<void> read_rate(const YamlNode& node, std::string_view path, NetworkEgressRule& rule) {
  rule.rate_limit_per_min = TRY(read_whole(node, path, 1, kRateLimitPerMinMax));
  return {};
}

Result<void> read_methods(const YamlNode& node, std::string_view path, NetworkEgressRule& rule) {
  rule.methods = TRY(read_texts(node, path, kMethodsPerRuleMax, check_method));
  return {};
}

Result<void> read_prefixes(const YamlNode& node, std::string_view path, NetworkEgressRule& rule) {
  rule.path_prefixes = TRY(read_texts(node, path, kPathPrefixesPerRuleMax, check_path_prefix));
  return {};
}

Result<void> read_bytes(const YamlNode& node, std::string_view path, NetworkEgressRule& rule) {
  rule.max_bytes = TRY(read_whole(node, path, 0, kEgressBytesMax));
  return {};
}

Result<void> read_granted(const YamlNode& node, std::string_view path, NetworkEgressRule& rule) {
  rule.granted_addresses =
      TRY(read_texts(node, path, kGrantedAddressesPerRuleMax, check_address_text));
  return {};
}

constexpr std::array<Field<HeaderInjection>, 3> kInjectionFields = {{
    {"header",
     [](const YamlNode& node, std::string_view path, HeaderInjection& out) -> Result<void> {
       const std::string_view text = TRY(read_text(node, path));
       out.header = TRY(placed(node, path, check_header_name(text)));
       return {};
     }},
    {"secret",
     [](const YamlNode& node, std::string_view path, HeaderInjection& out) -> Result<void> {
       const std::string_view text = TRY(read_text(node, path));
       out.secret = TRY(placed(node, path, check_secret_name(text)));
       return {};
     }},
    {"prefix",
     [](const YamlNode& node, std::string_view path, HeaderInjection& out) -> Result<void> {
       const std::string_view text = TRY(read_text(node, path));
       out.prefix = TRY(placed(node, path, check_header_prefix(text)));
       return {};
     }},
}};

Result<void> read_inject(const YamlNode& node, std::string_view path, NetworkEgressRule& rule) {
  TRY(require_list(node, path, kInjectionsPerRuleMax));
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const std::string where = fmt::format("{}[{}]", path, i);
    HeaderInjection one;
    TRY(read_fields(item, where, kInjectionFields, one));
    if (one.header.empty()) return invalid_at(item.at, where + " has no header");
    if (one.secret.empty()) return invalid_at(item.at, where + " has no secret");
    rule.inject.push_back(std::move(one));
    TRY(placed(item, path, check_injections(rule.inject)));
  }
  return {};
}

Result<void> read_inspect(const YamlNode& node, std::string_view path, NetworkEgressRule& rule) {
  rule.inspect = TRY(read_truth(node, path));
  return {};
}

constexpr std::array<Field<NetworkEgressRule>, 9> kRuleFields = {{
    {"domain", read_domain},
    {"ports", read_ports},
    {"rate_limit_per_min", read_rate},
    {"methods", read_methods},
    {"path_prefixes", read_prefixes},
    {"max_bytes", read_bytes},
    {"granted_addresses", read_granted},
    {"inject", read_inject},
    {"inspect", read_inspect},
}};

Result<void> read_rules(const YamlNode& node, std::string_view path, CapabilityDeclaration& out) {
  TRY(require_list(node, path, kEgressRulesMax));
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const std::string where = fmt::format("{}[{}]", path, i);
    NetworkEgressRule rule;
    TRY(read_fields(item, where, kRuleFields, rule));
    if (rule.domain.empty()) return invalid_at(item.at, where + " has no domain");
    // Whoever owns a zone chooses the names below it, and could give each of them such an address.
    if (!rule.granted_addresses.empty() && rule.domain.starts_with("*.")) {
      return invalid_at(item.at,
                        fmt::format("{}.granted_addresses: addresses are granted to one name, not "
                                    "to {}; name it",
                                    where, in_quotes(rule.domain)));
    }
    out.network_egress_rules.push_back(std::move(rule));
  }
  return {};
}

// --- filesystem_config ---

Result<void> read_mode(const YamlNode& node, std::string_view path, FilesystemConfig& config) {
  const std::string_view text = TRY(read_text(node, path));
  config.mode = TRY(placed(node, path, parse_filesystem_mode(text)));
  return {};
}

Result<void> read_paths(const YamlNode& node, std::string_view path, FilesystemConfig& config) {
  TRY(require_list(node, path, kWritablePathsMax));
  for (const YamlNode& item : node.items) {
    const std::string_view text = TRY(read_text(item, path));
    config.writable_paths.push_back(TRY(placed(item, path, clean_path(text))));
  }
  return {};
}

constexpr std::array<Field<FilesystemConfig>, 2> kFilesystemFields = {{
    {"mode", read_mode},
    {"writable_paths", read_paths},
}};

// --- resource_limits ---

Result<void> read_memory(const YamlNode& node, std::string_view path, ResourceLimits& limits) {
  limits.max_memory_mb = TRY(read_whole(node, path, 1, kMemoryMbMax));
  return {};
}

Result<void> read_cpu(const YamlNode& node, std::string_view path, ResourceLimits& limits) {
  limits.max_cpu_seconds = TRY(read_fraction(node, path, kCpuSecondsMax));
  return {};
}

Result<void> read_cost(const YamlNode& node, std::string_view path, ResourceLimits& limits) {
  limits.max_cost_usd = TRY(read_fraction(node, path, kCostUsdMax));
  return {};
}

Result<void> read_tokens(const YamlNode& node, std::string_view path, ResourceLimits& limits) {
  limits.max_tokens = TRY(read_whole(node, path, 1, kTokensMax));
  return {};
}

constexpr std::array<Field<ResourceLimits>, 4> kLimitFields = {{
    {"max_memory_mb", read_memory},
    {"max_cpu_seconds", read_cpu},
    {"max_cost_usd", read_cost},
    {"max_tokens", read_tokens},
}};

// --- the capability itself ---

Result<void> read_tier(const YamlNode& node, std::string_view path, CapabilityDeclaration& out) {
  const std::string_view text = TRY(read_text(node, path));
  out.sandbox_tier = TRY(placed(node, path, parse_sandbox_tier(text)));
  return {};
}

Result<void> read_filesystem(const YamlNode& node, std::string_view path,
                             CapabilityDeclaration& out) {
  return read_fields(node, path, kFilesystemFields, out.filesystem_config);
}

Result<void> read_limits(const YamlNode& node, std::string_view path, CapabilityDeclaration& out) {
  return read_fields(node, path, kLimitFields, out.resource_limits);
}

Result<void> read_permissions(const YamlNode& node, std::string_view path,
                              CapabilityDeclaration& out) {
  TRY(require_list(node, path, kPermissionsMax));
  for (const YamlNode& item : node.items) {
    const std::string_view text = TRY(read_text(item, path));
    out.permissions.insert(TRY(placed(item, path, parse_permission(text))));
  }
  return {};
}

Result<void> read_env_allowlist(const YamlNode& node, std::string_view path,
                                CapabilityDeclaration& out) {
  // No list lets every variable pass. Who commented out the entries of a list did not ask for that,
  // so it takes the word.
  if (node.kind == YamlNode::Kind::Null && node.plain) return {};
  if (node.kind == YamlNode::Kind::Null) return wrong_type(node, path, "a list or the word null");
  TRY(require_list(node, path, kEnvAllowlistMax));
  std::vector<std::string> names;
  for (const YamlNode& item : node.items) {
    const std::string_view text = TRY(read_text(item, path));
    names.push_back(TRY(placed(item, path, check_env_name(text))));
  }
  out.env_allowlist = std::move(names);
  return {};
}

constexpr std::array<Field<CapabilityDeclaration>, 6> kCapabilityFields = {{
    {"sandbox_tier", read_tier},
    {"network_egress_rules", read_rules},
    {"filesystem_config", read_filesystem},
    {"resource_limits", read_limits},
    {"permissions", read_permissions},
    {"env_allowlist", read_env_allowlist},
}};

Result<CapabilityDeclaration> read_capability(std::string_view text) {
  const YamlNode root = TRY(parse_yaml(text));
  CapabilityDeclaration out;
  if (root.kind != YamlNode::Kind::Null) TRY(read_fields(root, "", kCapabilityFields, out));
  return out;
}

}  // namespace

Result<CapabilityDeclaration> CapabilityParser::from_string(std::string_view text) {
  return TRY_IN("capability validation error", read_capability(text));
}

}  // namespace caisson::policy
