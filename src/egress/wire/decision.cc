#include "egress/wire/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "policy/egress.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

Verdict deny(Reason reason, std::string text, std::optional<std::size_t> rule_index = {}) {
  return {Outcome::Deny, reason, rule_index, std::move(text), {}};
}

std::string rule_words(const Rules& rules, std::size_t index) {
  return fmt::format("rule {} ({})", index, rules.all()[index].wanted.domain);
}

std::string target_words(const HostName& host, std::uint16_t port) {
  return fmt::format("{}:{}", host.text(), port);
}

// Whole segments: "/v1" is the beginning of "/v1" and "/v1/x", not of "/v10".
bool begins_with(std::string_view path, std::string_view prefix) {
  path = path.substr(0, path.find('?'));
  if (!path.starts_with(prefix)) return false;
  return prefix.ends_with('/') || path.size() == prefix.size() || path[prefix.size()] == '/';
}

// Why a rule whose name and port fit does not, or Allowed.
Reason fault_of_http(const policy::NetworkEgressRule& rule, const Request& request) {
  if (rule.methods.empty() && rule.path_prefixes.empty() && !rule.intercepts())
    return Reason::Allowed;
  const auto* http = std::get_if<HttpSeen>(&request.first);
  if (http == nullptr) {
    // A connection that will be read is judged request by request; what was said on it must then be
    // HTTP, and TLS is, once it is taken off, which only the rule can ask for.
    const bool may_come = std::holds_alternative<NothingSeen>(request.first) ||
                          (std::holds_alternative<TlsSeen>(request.first) && rule.intercepts());
    return request.sight == Sight::Readable && may_come ? Reason::Allowed : Reason::HttpNotSeen;
  }
  if (!rule.methods.empty() &&
      std::ranges::find(rule.methods, http->method) == rule.methods.end()) {
    return Reason::MethodNotAllowed;
  }
  if (rule.path_prefixes.empty()) return Reason::Allowed;
  if (!is_plain_path(http->path)) return Reason::PathAmbiguous;
  const auto fits = [&](const std::string& prefix) { return begins_with(http->path, prefix); };
  return std::ranges::any_of(rule.path_prefixes, fits) ? Reason::Allowed : Reason::PathNotAllowed;
}

std::string_view http_words(Reason reason) {
  switch (reason) {
    case Reason::MethodNotAllowed:
      return "does not allow this method";
    case Reason::PathNotAllowed:
      return "does not allow this path";
    case Reason::PathAmbiguous:
      return "allows some paths only, and this one can be read in two ways";
    default:
      return "allows some methods or paths only, and this connection does not show them";
  }
}

// Step 3. The rule that fits is in rule_index of a verdict that asks for more.
Verdict match(const Request& request, const HostName& host, const Rules& rules) {
  const std::string target = target_words(host, request.port);
  if (rules.empty()) {
    return deny(Reason::NoRules, fmt::format("{}: no egress rules, nothing leaves", target));
  }
  // What is said when no rule fits: of the one that came nearest.
  Verdict nearest = deny(Reason::NoRuleForHost, fmt::format("{}: no rule names this host", target));
  for (std::size_t i = 0; i < rules.all().size(); ++i) {
    const policy::NetworkEgressRule& rule = rules.all()[i].wanted;
    if (!policy::matches_name(rule, host.text())) continue;
    // A default is for hosts that no rule names; here one did, and did not fit.
    if (rule.otherwise && nearest.reason != Reason::NoRuleForHost) continue;
    if (!policy::matches_port(rule, request.port)) {
      if (nearest.reason != Reason::NoRuleForHost) continue;
      nearest =
          deny(Reason::PortNotAllowed,
               fmt::format("{}: {} does not allow this port", target, rule_words(rules, i)), i);
      continue;
    }
    const Reason fault = fault_of_http(rule, request);
    if (fault == Reason::Allowed && !rule.inject.empty() && !request.verified &&
        std::holds_alternative<HttpSeen>(request.first)) {
      // Not the next rule: it would let the request go without what this one adds.
      return deny(Reason::NeedsTls,
                  fmt::format("{}: {} adds a secret, which goes by https only", target,
                              rule_words(rules, i)),
                  i);
    }
    if (fault == Reason::Allowed) {
      return {Outcome::NeedAddresses,
              Reason::MoreIsNeeded,
              i,
              fmt::format("{}: {}", target, rule_words(rules, i)),
              {}};
    }
    const bool weaker =
        nearest.reason == Reason::NoRuleForHost || nearest.reason == Reason::PortNotAllowed;
    if (weaker) {
      nearest =
          deny(fault, fmt::format("{}: {} {}", target, rule_words(rules, i), http_words(fault)), i);
    }
  }
  return nearest;
}

// Steps 1 and 2, or nothing when they hold.
std::optional<Verdict> judge_request(const Request& request) {
  if (request.identity == Identity::Unknown) {
    return deny(Reason::NotIdentified, "the caller's sandbox is not known");
  }
  if (request.identity == Identity::Other) {
    return deny(Reason::OtherSandbox, "the token is another sandbox's");
  }
  if (const auto* address = std::get_if<IpAddress>(&request.host)) {
    return deny(Reason::AddressLiteral,
                fmt::format("{}: {}", to_string(*address), to_string(HostFault::AddressLiteral)));
  }
  const auto fault_reason = [](HostFault fault) {
    return fault == HostFault::AddressLiteral ? Reason::AddressLiteral : Reason::BadTarget;
  };
  if (const auto* fault = std::get_if<HostFault>(&request.host)) {
    return deny(fault_reason(*fault), std::string(to_string(*fault)));
  }
  if (const auto* refusal = std::get_if<TargetRefusal>(&request.host)) {
    const Reason reason =
        refusal->host_fault ? fault_reason(*refusal->host_fault) : Reason::BadTarget;
    return deny(reason, to_string(*refusal));
  }
  if (request.port == 0) return deny(Reason::BadPort, "port 0");
  return std::nullopt;
}

// Step 4, on a verdict that names its rule.
Verdict judge_addresses(Verdict verdict, const Rules& rules, const HostName& host,
                        const Resolved& resolved) {
  const std::size_t index = *verdict.rule_index;
  const auto refuse = [&](Reason reason, std::string_view why) {
    return deny(reason, fmt::format("{}: {}", host.text(), why), index);
  };
  if (resolved.state == Resolution::NoSuchName) {
    return refuse(Reason::NoSuchName, "allowed, but there is no such name");
  }
  if (resolved.state == Resolution::Failed) {
    return refuse(Reason::ResolverFailed, "allowed, but the name could not be resolved");
  }
  if (resolved.addresses.empty()) {
    return refuse(Reason::NoAddress, "allowed, but the name has no address");
  }
  if (resolved.addresses.size() > kResolvedAddressesMax) {
    return refuse(Reason::TooManyAddresses, "the name has too many addresses");
  }
  const std::vector<IpAddress>& granted = rules.all()[index].granted;
  for (const IpAddress& address : resolved.addresses) {
    const Judged judged = classify(address);
    const bool is_granted = std::ranges::find(granted, judged.address) != granted.end();
    if (!judged.is_public() && !is_granted) {
      // One bad address condemns the set: a zone that mixes them waits for us to pick the other.
      return refuse(Reason::ForbiddenAddress,
                    fmt::format("its address {} is not public, and {} does not grant it",
                                describe(judged, address), rule_words(rules, index)));
    }
    verdict.addresses.push_back(judged.address);
  }
  verdict.outcome = Outcome::NeedFirstBytes;
  return verdict;
}

std::optional<Verdict> judge_hello(const ClientHello& hello, const HostName& host) {
  if (hello.encrypted_hello) {
    return deny(Reason::EncryptedHello,
                fmt::format("{}: the ClientHello hides a second name (ECH)", host.text()));
  }
  if (!hello.server_name) {
    return deny(Reason::ServerNameMissing,
                fmt::format("{}: the ClientHello names no server (SNI)", host.text()));
  }
  if (*hello.server_name != host) {
    return deny(Reason::ServerNameOther, fmt::format("{}: the ClientHello asks for {}", host.text(),
                                                     hello.server_name->text()));
  }
  return std::nullopt;
}

// Step 5, or nothing when it holds.
std::optional<Verdict> judge_first_bytes(const FirstBytes& first, const HostName& host) {
  if (const auto* tls = std::get_if<TlsSeen>(&first)) return judge_hello(tls->hello, host);
  if (const auto* refused = std::get_if<TlsRefused>(&first)) {
    return deny(Reason::BadHello, fmt::format("{}: {}", host.text(), to_string(refused->fault)));
  }
  const auto* http = std::get_if<HttpSeen>(&first);
  if (http != nullptr && http->host_field) {
    return deny(Reason::HostField,
                fmt::format("{}: {}", host.text(), to_string(*http->host_field)));
  }
  return std::nullopt;
}

}  // namespace

Verdict decide(const Request& request, const Rules& rules, const Resolved& resolved) {
  if (auto refused = judge_request(request)) return std::move(*refused);
  const auto& host = std::get<HostName>(request.host);
  if (request.within) {
    const auto names = [&](const policy::NetworkEgressRule& rule) {
      return policy::matches_name(rule, host.text());
    };
    if (std::ranges::none_of(*request.within, names)) {
      return deny(Reason::NoRuleForHost,
                  fmt::format("{}: the token does not name this host", host.text()));
    }
  }
  Verdict verdict = match(request, host, rules);
  if (verdict.outcome == Outcome::Deny) return verdict;
  const std::size_t rule_index = *verdict.rule_index;
  if (resolved.state != Resolution::NotAsked) {
    verdict = judge_addresses(std::move(verdict), rules, host, resolved);
    if (verdict.outcome == Outcome::Deny) return verdict;
  }
  // What is known to be wrong already is refused before anybody is asked about the name.
  if (auto refused = judge_first_bytes(request.first, host)) {
    refused->rule_index = rule_index;
    return std::move(*refused);
  }
  if (resolved.state == Resolution::NotAsked) return verdict;
  if (std::holds_alternative<NothingSeen>(request.first)) return verdict;
  verdict.outcome = Outcome::Allow;
  verdict.reason = Reason::Allowed;
  return verdict;
}

Verdict over_rate(Verdict verdict, const Rules& rules, nanoseconds wait) {
  if (verdict.outcome == Outcome::Deny || !verdict.rule_index) return verdict;
  const std::size_t index = *verdict.rule_index;
  const std::int64_t ms = duration_cast<milliseconds>(wait).count();
  return deny(
      Reason::RateLimited,
      fmt::format("{}: {} requests a minute are spent; the next in {} ms", rule_words(rules, index),
                  rules.all()[index].wanted.rate_limit_per_min, ms),
      index);
}

Verdict over_bytes(Verdict verdict, const Rules& rules) {
  if (verdict.outcome == Outcome::Deny || !verdict.rule_index) return verdict;
  const std::size_t index = *verdict.rule_index;
  return deny(Reason::BytesSpent,
              fmt::format("{}: {} bytes are spent", rule_words(rules, index),
                          rules.all()[index].wanted.max_bytes),
              index);
}

Verdict decide_name(const HostName& host, const Rules& rules) {
  if (rules.empty()) {
    return deny(Reason::NoRules, fmt::format("{}: no egress rules, nothing leaves", host.text()));
  }
  const auto& all = rules.all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!policy::matches_name(all[i].wanted, host.text())) continue;
    return {Outcome::Allow,
            Reason::Allowed,
            i,
            fmt::format("{}: {}", host.text(), rule_words(rules, i)),
            {}};
  }
  return deny(Reason::NoRuleForHost, fmt::format("{}: no rule names this host", host.text()));
}

}  // namespace caisson::egress
