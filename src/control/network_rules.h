// control/network_rules.h — where a sandbox may go, as a caller words it and as its record keeps
// it: the same JSON both times.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/capability.h"

namespace caisson::control {

using EgressRules = std::vector<policy::NetworkEgressRule>;

// What was said about the network. `rules` in full, or `domain_allowlist`, where each name stands
// for itself on ports 80 and 443.
struct NetworkWish {
  std::optional<std::string> mode;  // "none" or "allowlist"
  std::vector<std::string> domain_allowlist;
  std::optional<EgressRules> rules;
  std::optional<bool> token;  // proxy clients must show the sandbox's token

  [[nodiscard]] bool said() const noexcept {
    return mode || !domain_allowlist.empty() || rules.has_value();
  }
  friend bool operator==(const NetworkWish&, const NetworkWish&) = default;
};

// Whose word it is. What reaches inward or spends a secret is for those who run the server: in its
// configuration, or by an admin's token.
enum class Trust : std::uint8_t { Caller, Operator };

// Judged and canonical; empty means that nothing leaves. Errors name the field.
[[nodiscard]] Result<EgressRules> rules_of(const NetworkWish& wish, Trust trust);

[[nodiscard]] boost::json::array to_json(const EgressRules& rules);
// `field` is what stands before the index in an error: "network.rules".
[[nodiscard]] Result<EgressRules> read_rules(const boost::json::value& value,
                                             std::string_view field);

// The variables that show programs the way out. Their absence is no wall, and they are none.
// With a token, as the password of the proxy.
[[nodiscard]] std::vector<std::string> way_out_environment(const std::string& token = {});

// The domains whose TLS the rules want to be looked into, each once.
[[nodiscard]] std::vector<std::string> intercepted_domains(const EgressRules& rules);
// Variables for programs that do not look where the system keeps its authorities. For a sandbox
// that trusts one of ours.
[[nodiscard]] std::vector<std::string> trust_environment();

}  // namespace caisson::control
