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

// Where programs inside find the proxy, beside 127.0.0.1:3128: "127.0.0.1" or a name that the
// resolver inside answers with it, and a port.
struct ProxyPlace {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const ProxyPlace&, const ProxyPlace&) = default;
};

// What the claims of a sandbox's token say of it, to whoever else reads them. Here they say
// nothing: which sandbox a token is for, is what we have given out, and the rules decide.
struct TokenWords {
  std::string session_id;
  std::optional<std::string> tenant_id;
  std::vector<std::string> allowed_hosts;

  friend bool operator==(const TokenWords&, const TokenWords&) = default;
};

// How a sandbox's programs are shown its proxy. Fixed when it is created.
struct ProxyManner {
  bool variables = true;
  std::optional<ProxyPlace> place{};
  std::optional<TokenWords> words{};

  friend bool operator==(const ProxyManner&, const ProxyManner&) = default;
};

// What was said about the network. `rules` in full, or `domain_allowlist`, where each name stands
// for itself on ports 80 and 443.
struct NetworkWish {
  std::optional<std::string> mode;  // "none" or "allowlist"
  std::vector<std::string> domain_allowlist;
  std::optional<EgressRules> rules;
  std::optional<bool> token;  // proxy clients must show the sandbox's token
  // What only a door says, and no body of a request can. Secrets that the caller has told the door
  // himself, for this very wish, and that it keeps under these names: rules may add them, to every
  // host if they say so, and no other secret is meant.
  std::vector<std::string> own_secrets{};
  // Rules of the server's settings that belong to the dialect: before the caller's, and not judged
  // as his.
  EgressRules operators{};
  // For a create: the sandbox trusts an authority for every name, so that later rules may look into
  // TLS with hosts that nobody knows yet.
  bool authority_for_every_name = false;
  // For a create, of a dialect with a proxy of its own. False: commands get no variables of a
  // proxy; the way by addresses is there anyway.
  std::optional<bool> variables{};
  // With it the proxy is there even where no rule allows anything, and says so.
  std::optional<ProxyPlace> proxy{};
  std::optional<TokenWords> words{};  // with `token`

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
// The same for a place of its own: four variables, and nothing besides.
[[nodiscard]] std::vector<std::string> way_out_environment(const std::string& token,
                                                           const ProxyPlace& place);

// What a wish says, where it says nothing what its profile does. Judged and canonical.
[[nodiscard]] Result<ProxyManner> proxy_manner_of(const NetworkWish& wish,
                                                  const NetworkWish& profile);
// For a sandbox that lives: what was said at its creation, or nothing.
[[nodiscard]] Result<void> check_proxy_kept(const NetworkWish& wish, const ProxyManner& kept);

// The domains whose TLS the rules want to be looked into, each once.
[[nodiscard]] std::vector<std::string> intercepted_domains(const EgressRules& rules);
// Variables for programs that do not look where the system keeps its authorities. For a sandbox
// that trusts one of ours.
[[nodiscard]] std::vector<std::string> trust_environment();

}  // namespace caisson::control
