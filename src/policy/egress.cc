#include "policy/egress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "policy/host_name.h"

namespace caisson::policy {

// Whole labels only: the dot of "*." belongs to the suffix, so "evilexample.com" does not end in
// it.
bool matches_name(const NetworkEgressRule& rule, std::string_view host) noexcept {
  if (rule.domain.empty()) return false;
  const std::string_view domain = rule.domain;
  if (rule.every_name) return true;
  if (!domain.starts_with("*.")) return host == domain;
  const std::string_view suffix = domain.substr(1);
  if (host.size() > suffix.size() && host.ends_with(suffix)) return true;
  return rule.apex == Apex::Included && host == domain.substr(2);
}

bool matches_port(const NetworkEgressRule& rule, std::optional<std::uint16_t> port) noexcept {
  if (rule.ports.empty()) return true;
  return port && std::ranges::find(rule.ports, *port) != rule.ports.end();
}

EgressFilter::EgressFilter(std::vector<NetworkEgressRule> rules) : rules_(std::move(rules)) {
  for (NetworkEgressRule& rule : rules_) {
    Result<std::string> domain = canonical_rule_domain(rule.domain);
    rule.domain = domain ? std::move(*domain) : std::string();
  }
}

bool EgressFilter::is_allowed(std::string_view url) const { return check(url).allowed; }

EgressDecision EgressFilter::check(std::string_view url) const {
  const Result<EgressTarget> target = parse_egress_target(url);
  if (!target) return EgressDecision{false, std::nullopt, target.error().message, {}};
  return check(*target);
}

EgressDecision EgressFilter::check(const EgressTarget& target) const {
  EgressDecision decision{false, std::nullopt, {}, target};
  if (rules_.empty()) {
    decision.reason = fmt::format("{}: no egress rules, nothing leaves", to_string(target));
    return decision;
  }
  std::optional<std::size_t> wrong_port;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!matches_name(rules_[i], target.host)) continue;
    if (matches_port(rules_[i], target.port)) {
      decision.allowed = true;
      decision.rule_index = i;
      decision.reason = fmt::format("{}: rule {} ({})", to_string(target), i, rules_[i].domain);
      return decision;
    }
    if (!wrong_port) wrong_port = i;
  }
  if (!wrong_port) {
    decision.reason = fmt::format("{}: no rule names this host", to_string(target));
  } else if (target.port) {
    decision.reason = fmt::format("{}: rule {} ({}) does not allow this port", to_string(target),
                                  *wrong_port, rules_[*wrong_port].domain);
  } else {
    decision.reason =
        fmt::format("{}: rule {} ({}) allows only some ports; name the port or a scheme",
                    to_string(target), *wrong_port, rules_[*wrong_port].domain);
  }
  return decision;
}

bool EgressFilter::allows_name(std::string_view host) const {
  const auto named = [&](const NetworkEgressRule& rule) { return matches_name(rule, host); };
  return std::ranges::any_of(rules_, named);
}

std::string to_string(const EgressDecision& decision) {
  return fmt::format("{}: {}", decision.allowed ? "allowed" : "denied", decision.reason);
}

EgressDecision check_egress(std::string_view url, const std::vector<NetworkEgressRule>& rules) {
  return EgressFilter(rules).check(url);
}

}  // namespace caisson::policy
