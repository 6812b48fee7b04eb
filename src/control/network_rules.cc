#include "control/network_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <set>

#include "control/text.h"
#include "egress/wire/rules.h"
#include "engine/launch_request.h"
#include "policy/way_out.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr std::size_t kWordBytesMax = 4096;

template <class Texts>
json::array array_of(const Texts& texts) {
  json::array out;
  for (const auto& text : texts) out.emplace_back(text);
  return out;
}

// One rule taken apart. The first complaint stays; what nobody asked for is one, too.
class RuleReader {
 public:
  RuleReader(const json::object& object, std::string field)
      : object_(object), field_(std::move(field)) {}

  std::string text(std::string_view name) {
    const json::value* at = look(name);
    if (at == nullptr) return "";
    if (!at->is_string() || at->get_string().size() > kWordBytesMax)
      return complain(name, "want a string"), "";
    return std::string(at->get_string());
  }
  std::vector<std::string> texts(std::string_view name, std::size_t max) {
    std::vector<std::string> out;
    const json::array* all = array(name, max);
    if (all == nullptr) return out;
    for (const json::value& one : *all) {
      if (!one.is_string() || one.get_string().size() > kWordBytesMax)
        return complain(name, "want a list of strings"), out;
      out.emplace_back(one.get_string());
    }
    return out;
  }
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t min, std::int64_t max) {
    const json::value* at = look(name);
    if (at == nullptr) return std::nullopt;
    return number(*at, name, min, max);
  }
  std::vector<std::uint16_t> ports(std::string_view name) {
    std::vector<std::uint16_t> out;
    const json::array* all = array(name, policy::kPortsPerRuleMax);
    if (all == nullptr) return out;
    for (const json::value& one : *all) {
      if (const auto port = number(one, name, 1, 65535))
        out.push_back(static_cast<std::uint16_t>(*port));
    }
    return out;
  }
  bool flag(std::string_view name) {
    const json::value* at = look(name);
    if (at == nullptr) return false;
    if (!at->is_bool()) return complain(name, "want true or false"), false;
    return at->get_bool();
  }
  std::vector<policy::HeaderInjection> injections(std::string_view name) {
    std::vector<policy::HeaderInjection> out;
    const json::array* all = array(name, policy::kInjectionsPerRuleMax);
    if (all == nullptr) return out;
    for (std::size_t i = 0; i < all->size(); ++i) {
      const std::string where = fmt::format("{}.{}[{}]", field_, name, i);
      if (!(*all)[i].is_object()) return complain(name, "want a list of objects"), out;
      RuleReader inner((*all)[i].get_object(), where);
      out.push_back({inner.text("header"), inner.text("secret"), inner.text("prefix")});
      if (auto good = inner.finish(); !good && !wrong_) wrong_ = std::move(good.error());
    }
    return out;
  }

  [[nodiscard]] Result<void> finish() const {
    if (wrong_) return std::unexpected(*wrong_);
    for (const auto& [key, value] : object_) {
      if (known_.contains(key)) continue;
      const std::string where = field_ + "." + cut_text(key, 64);
      return bad_field(where, where + ": is not a word of a rule");
    }
    return {};
  }

 private:
  const json::value* look(std::string_view name) {
    known_.emplace(name);
    const json::value* at = object_.if_contains(name);
    return at == nullptr || at->is_null() ? nullptr : at;
  }
  const json::array* array(std::string_view name, std::size_t max) {
    const json::value* at = look(name);
    if (at == nullptr) return nullptr;
    if (at->is_array() && at->get_array().size() <= max) return &at->get_array();
    complain(name, fmt::format("want a list of at most {}", max));
    return nullptr;
  }
  std::optional<std::int64_t> number(const json::value& value, std::string_view name,
                                     std::int64_t min, std::int64_t max) {
    boost::system::error_code failed;
    const auto read = value.to_number<std::int64_t>(failed);
    if (!failed && read >= min && read <= max) return read;
    complain(name, fmt::format("want whole numbers from {} to {}", min, max));
    return std::nullopt;
  }
  void complain(std::string_view name, std::string_view message) {
    if (wrong_) return;
    const std::string where = fmt::format("{}.{}", field_, name);
    wrong_ = bad_field(where, fmt::format("{}: {}", where, message)).error();
  }

  const json::object& object_;
  std::string field_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> wrong_;
};

Result<policy::NetworkEgressRule> read_rule(const json::value& value, const std::string& field) {
  if (!value.is_object()) return bad_field(field, field + ": want an object");
  RuleReader reader(value.get_object(), field);
  policy::NetworkEgressRule rule;
  rule.domain = reader.text("domain");
  rule.every_name = rule.domain == policy::kEveryName;
  rule.ports = reader.ports("ports");
  rule.rate_limit_per_min = reader.integer("rate_limit_per_min", 1, policy::kRateLimitPerMinMax)
                                .value_or(rule.rate_limit_per_min);
  rule.apex = reader.flag("apex") ? policy::Apex::Included : policy::Apex::Excluded;
  rule.methods = reader.texts("methods", policy::kMethodsPerRuleMax);
  rule.path_prefixes = reader.texts("path_prefixes", policy::kPathPrefixesPerRuleMax);
  rule.max_bytes = reader.integer("max_bytes", 0, policy::kEgressBytesMax).value_or(0);
  rule.granted_addresses = reader.texts("granted_addresses", policy::kGrantedAddressesPerRuleMax);
  rule.inject = reader.injections("inject");
  rule.inspect = reader.flag("inspect");
  rule.otherwise = reader.flag("otherwise");
  TRY(reader.finish());
  if (rule.domain.empty()) return bad_field(field + ".domain", field + ".domain: is missing");
  return rule;
}

json::object to_json(const policy::NetworkEgressRule& rule) {
  json::object out{{"domain", rule.domain}, {"rate_limit_per_min", rule.rate_limit_per_min}};
  out["ports"] = array_of(rule.ports);
  if (rule.apex == policy::Apex::Included) out["apex"] = true;
  if (!rule.methods.empty()) out["methods"] = array_of(rule.methods);
  if (!rule.path_prefixes.empty()) out["path_prefixes"] = array_of(rule.path_prefixes);
  if (rule.max_bytes != 0) out["max_bytes"] = rule.max_bytes;
  if (!rule.granted_addresses.empty()) out["granted_addresses"] = array_of(rule.granted_addresses);
  if (rule.inspect) out["inspect"] = true;
  if (rule.otherwise) out["otherwise"] = true;
  if (rule.inject.empty()) return out;
  json::array inject;
  for (const policy::HeaderInjection& one : rule.inject) {
    json::object injection{{"header", one.header}, {"secret", one.secret}};
    if (!one.prefix.empty()) injection["prefix"] = one.prefix;
    inject.push_back(std::move(injection));
  }
  out["inject"] = std::move(inject);
  return out;
}

// Who may spend a secret may still not hand it to whichever host a guest names; that is for those
// who brought it themselves.
Result<void> check_trust(const EgressRules& rules, const NetworkWish& wish, Trust trust) {
  const auto is_own = [&wish](const policy::HeaderInjection& one) {
    return std::ranges::find(wish.own_secrets, one.secret) != wish.own_secrets.end();
  };
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const auto refuse = [&](std::string_view word) {
      const std::string field = fmt::format("network.rules[{}].{}", i, word);
      return std::unexpected(Error{
          Errc::Denied,
          fmt::format("{}: needs a token of the scope 'admin', or a profile of the server", field),
          0, field});
    };
    const bool own_only = std::ranges::all_of(rules[i].inject, is_own);
    if (rules[i].every_name && !own_only) {
      const std::string field = fmt::format("network.rules[{}].inject", i);
      return bad_field(field, field +
                                  ": a rule for every name, \"*\", cannot add a secret; name "
                                  "the domains");
    }
    if (trust == Trust::Operator) continue;
    if (!rules[i].granted_addresses.empty()) return refuse("granted_addresses");
    if (!own_only) return refuse("inject");
  }
  return {};
}

Error renamed(Error error, std::string_view field) {
  constexpr std::string_view kPolicyField = "network_egress_rules";
  for (std::string* text : {&error.message, &error.field}) {
    if (text->starts_with(kPolicyField)) text->replace(0, kPolicyField.size(), field);
  }
  return error;
}

EgressRules allowlist(const std::vector<std::string>& names) {
  EgressRules rules;
  for (const std::string& name : names) {
    policy::NetworkEgressRule rule;
    rule.domain = name;
    rule.ports = {80, 443};
    rule.rate_limit_per_min = policy::kRateLimitPerMinMax;  // nobody asked for a limit
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace

Result<EgressRules> rules_of(const NetworkWish& wish, Trust trust) {
  if (wish.mode && *wish.mode != "none" && *wish.mode != "allowlist")
    return bad_field("network.mode", fmt::format("network.mode is '{}': want 'none' or 'allowlist'",
                                                 cut_text(*wish.mode, 64)));
  const bool names = !wish.domain_allowlist.empty();
  const bool rules = wish.rules && !wish.rules->empty();
  if (names && rules)
    return bad_field("network.rules",
                     "network.rules: and domain_allowlist are both there; give one of them");
  if (wish.mode == "none" && (names || rules)) {
    const std::string field = names ? "network.domain_allowlist" : "network.rules";
    return bad_field(field, field + ": the mode 'none' allows nothing; say 'allowlist'");
  }
  const std::string_view field = names ? "network.domain_allowlist" : "network.rules";
  EgressRules wanted = rules ? *wish.rules : allowlist(wish.domain_allowlist);
  TRY(check_trust(wanted, wish, trust));
  wanted.insert(wanted.begin(), wish.operators.begin(), wish.operators.end());
  const auto compiled = egress::Rules::compile(wanted);
  if (!compiled) {
    Error error = renamed(compiled.error(), field);
    if (error.field.empty()) error.field = field;
    return std::unexpected(std::move(error));
  }
  EgressRules canonical;
  for (const egress::Rules::Rule& one : compiled->all()) canonical.push_back(one.wanted);
  return canonical;
}

json::array to_json(const EgressRules& rules) {
  json::array out;
  for (const policy::NetworkEgressRule& rule : rules) out.push_back(to_json(rule));
  return out;
}

Result<EgressRules> read_rules(const json::value& value, std::string_view field) {
  if (!value.is_array() || value.get_array().size() > policy::kEgressRulesMax)
    return bad_field(std::string(field), fmt::format("{}: want a list of at most {} rules", field,
                                                     policy::kEgressRulesMax));
  EgressRules rules;
  for (const json::value& one : value.get_array())
    rules.push_back(TRY(read_rule(one, fmt::format("{}[{}]", field, rules.size()))));
  return rules;
}

// Not socks5h in ALL_PROXY: there are libraries that take it and then miss a package for it.
std::vector<std::string> way_out_environment(const std::string& token) {
  const std::string who = token.empty() ? "" : "sandbox:jwt_" + token + "@";
  const std::string proxy = fmt::format("http://{}127.0.0.1:{}", who, policy::kProxyPort);
  std::vector<std::string> out;
  for (const char* name :
       {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"})
    out.push_back(std::string(name) + "=" + proxy);
  for (const char* name : {"NO_PROXY", "no_proxy"})
    out.push_back(std::string(name) + "=localhost,127.0.0.1,::1");
  return out;
}

std::vector<std::string> intercepted_domains(const EgressRules& rules) {
  std::vector<std::string> out;
  for (const policy::NetworkEgressRule& rule : rules) {
    if (rule.intercepts() && std::ranges::find(out, rule.domain) == out.end())
      out.push_back(rule.domain);
  }
  return out;
}

std::vector<std::string> trust_environment() {
  std::vector<std::string> out;
  for (const char* name : {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
                           "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "PIP_CERT"})
    out.push_back(fmt::format("{}={}", name, engine::kTrustFile));
  return out;
}

}  // namespace caisson::control
