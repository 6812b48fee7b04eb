// doors/daiv/egress.h — the egress policy of a session, as rules of ours.
//
// The first rule that fits decides in both languages, so rules are carried over one by one, and a
// default of "allow" is a last rule for the names that no other one names. What our gate could not
// hold as it is meant is refused with the field's name: globs in the middle of a name. Secrets go
// to the server's own box, under a name that nobody else has; rules carry the name only. A secret
// is sent by https only, and addresses that are not public stay closed whatever the policy says.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/network_rules.h"
#include "doors/daiv/call.h"
#include "doors/daiv/schema.h"

namespace caisson::daiv {

// The server's box holds few, and others need theirs.
inline constexpr std::size_t kSecretsOfSessionMax = 8;

using SecretValues = std::map<std::string, std::string, std::less<>>;

// Takes the values out of {"secrets": {NAME: {"value": …}}} and leaves asterisks, so that no
// complaint can show them.
[[nodiscard]] SecretValues hide_secrets(boost::json::value* egress);

struct Egress {
  control::EgressRules rules;  // `secret` of an injection is the client's own name
  SecretValues secrets;        // those that rules use
};

[[nodiscard]] Egress read_egress(const boost::json::value& value, SecretValues secrets,
                                 const boost::json::array& loc, Problems& problems);

// The rule for "everywhere" that no other rule names.
[[nodiscard]] policy::NetworkEgressRule everywhere(bool inspect);

// Keeps the secrets under fresh names with a first part in common, which is the answer, and puts
// the names into the rules. While the result lives, the reaper leaves them alone.
class KeptSecrets {
 public:
  KeptSecrets(Services& services, std::string first_part);
  KeptSecrets(KeptSecrets&& other) noexcept;
  KeptSecrets& operator=(KeptSecrets&&) = delete;
  ~KeptSecrets();
  [[nodiscard]] const std::string& first_part() const noexcept { return first_part_; }
  [[nodiscard]] std::vector<std::string>& names() noexcept { return names_; }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  Services* services_;
  std::string first_part_;
  std::vector<std::string> names_{};
};
awaitable<Result<KeptSecrets>> keep_secrets(Services& services, const control::Caller& caller,
                                            Egress& egress);

// All whose first part is one of `first_parts`, words of a label.
awaitable<void> drop_secret_names(Services& services, const control::Caller& caller,
                                  std::string first_parts);
awaitable<void> drop_secrets(Services& services, const control::Caller& caller,
                             control::SandboxView view);
// Those of the caller's tenant that none of these sessions has.
awaitable<void> drop_orphans(Services& services, const control::Caller& caller,
                             std::vector<control::SandboxView> sessions);

// The network that a policy comes to. A caller spends his own secrets, which he has just told, and
// no others; and the session trusts its authority for every name, because the next policy may name
// hosts that this one does not.
[[nodiscard]] control::NetworkWish network_wish(const Egress& egress, const KeptSecrets& kept);

}  // namespace caisson::daiv
