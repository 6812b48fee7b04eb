// policy/egress.h — may the guest connect there? Deny by default; the first rule that matches
// allows. The answer carries the canonical host and port that were judged: whoever connects uses
// those, and never parses the URL again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/capability.h"

namespace caisson::policy {

inline constexpr std::size_t kUrlBytesMax = 8192;

struct EgressTarget {
  std::string host;  // canonical
  std::optional<std::uint16_t>
      port;  // a bare host names none; then only a rule for every port fits

  friend bool operator==(const EgressTarget&, const EgressTarget&) = default;
};

[[nodiscard]] std::string to_string(const EgressTarget& target);

// scheme://host[:port][/…][?…], host:port, or a bare host. A scheme without a well-known port needs
// an explicit one. Refused: userinfo, fragments, spaces, control characters, '\', non-ASCII, and
// what canonical_host() refuses.
[[nodiscard]] Result<EgressTarget> parse_egress_target(std::string_view url);

struct EgressDecision {
  bool allowed = false;
  std::optional<std::size_t> rule_index;  // the rule that allowed it
  std::string reason;                     // for a person and for the audit
  EgressTarget target;                    // empty when the URL could not be read

  friend bool operator==(const EgressDecision&, const EgressDecision&) = default;
};

[[nodiscard]] std::string to_string(const EgressDecision& decision);

// The two questions every decision asks of a rule whose domain is canonical; an empty one matches
// nothing. A bare host has no port: then only a rule for every port fits.
[[nodiscard]] bool matches_name(const NetworkEgressRule& rule, std::string_view host) noexcept;
[[nodiscard]] bool matches_port(const NetworkEgressRule& rule,
                                std::optional<std::uint16_t> port) noexcept;

class EgressFilter {
 public:
  // A rule whose domain is not a valid one matches nothing.
  explicit EgressFilter(std::vector<NetworkEgressRule> rules);

  [[nodiscard]] bool is_allowed(std::string_view url) const;
  [[nodiscard]] EgressDecision check(std::string_view url) const;
  [[nodiscard]] EgressDecision check(const EgressTarget& target) const;

  // Does some rule allow this canonical name on some port? The resolver answers these names and no
  // others.
  [[nodiscard]] bool allows_name(std::string_view host) const;

  [[nodiscard]] const std::vector<NetworkEgressRule>& rules() const noexcept { return rules_; }

 private:
  std::vector<NetworkEgressRule> rules_;  // domains canonical, or empty: those match nothing
};

[[nodiscard]] EgressDecision check_egress(std::string_view url,
                                          const std::vector<NetworkEgressRule>& rules);

}  // namespace caisson::policy
