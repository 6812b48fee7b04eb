#include "egress/wire/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "egress/wire/address_class.h"
#include "policy/egress.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

Result<std::vector<IpAddress>> read_granted(const policy::NetworkEgressRule& rule,
                                            const std::string& field) {
  std::vector<IpAddress> granted;
  if (!rule.granted_addresses.empty() && rule.domain.starts_with("*.")) {
    return bad_field(field, fmt::format("{}: addresses are granted to one name, not to \"{}\"",
                                        field, rule.domain));
  }
  for (const std::string& text : rule.granted_addresses) {
    const auto address = IpAddress::parse(text);
    if (!address) {
      return bad_field(field,
                       fmt::format("{}: {} is not an IP address", field, policy::in_quotes(text)));
    }
    const Judged judged = classify(*address);
    if (!is_grantable(judged.kind)) {
      return bad_field(field,
                       fmt::format("{}: {} cannot be granted", field, describe(judged, *address)));
    }
    granted.push_back(judged.address);
  }
  return granted;
}

}  // namespace

Result<Rules> Rules::compile(std::vector<policy::NetworkEgressRule> wanted) {
  policy::CapabilityDeclaration declaration;
  declaration.network_egress_rules = std::move(wanted);
  declaration = TRY(policy::validate(std::move(declaration)));
  Rules out;
  for (policy::NetworkEgressRule& rule : declaration.network_egress_rules) {
    const std::string field =
        fmt::format("network_egress_rules[{}].granted_addresses", out.rules_.size());
    std::vector<IpAddress> granted = TRY(read_granted(rule, field));
    out.rules_.push_back({std::move(rule), std::move(granted)});
  }
  return out;
}

bool Rules::names(const HostName& host) const {
  return std::ranges::any_of(
      rules_, [&](const Rule& rule) { return policy::matches_name(rule.wanted, host.text()); });
}

}  // namespace caisson::egress
