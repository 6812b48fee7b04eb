// egress/wire/rules.h — the policy's egress rules, ready to be asked: names canonical, granted
// addresses as bytes. The set is a value; a live change replaces it whole, so a decision sees the
// old rules or the new ones, never a mixture.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "egress/wire/host_name.h"
#include "egress/wire/ip_address.h"
#include "policy/capability.h"

namespace caisson::egress {

class Rules {
 public:
  struct Rule {
    policy::NetworkEgressRule wanted;
    std::vector<IpAddress> granted;

    friend bool operator==(const Rule&, const Rule&) = default;
  };

  Rules() = default;  // nothing leaves

  // Refused, with the field's name: what policy::validate() refuses, text that is no address, an
  // address that no rule may open, and addresses granted to a wildcard: the grant is for a name
  // *and* an address, and whoever owns a zone chooses the names below it.
  [[nodiscard]] static Result<Rules> compile(std::vector<policy::NetworkEgressRule> wanted);

  [[nodiscard]] const std::vector<Rule>& all() const noexcept { return rules_; }
  [[nodiscard]] bool empty() const noexcept { return rules_.empty(); }

  // Does some rule allow this name, on whichever port? The resolver answers these and no others.
  [[nodiscard]] bool names(const HostName& host) const;

 private:
  std::vector<Rule> rules_;
};

}  // namespace caisson::egress
