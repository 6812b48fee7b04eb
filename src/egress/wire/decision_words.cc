// How a verdict appears in the audit, in metrics and to a person.
#include <fmt/format.h>

#include "egress/wire/decision.h"

namespace caisson::egress {

std::string_view to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::Deny:
      return "denied";
    case Outcome::NeedAddresses:
      return "allowed if its addresses are";
    case Outcome::NeedFirstBytes:
      return "allowed if the client's first bytes are";
    case Outcome::Allow:
      return "allowed";
  }
  return "denied";
}

std::string_view to_string(Reason reason) noexcept {
  switch (reason) {
    case Reason::Allowed:
      return "allowed";
    case Reason::MoreIsNeeded:
      return "more_is_needed";
    case Reason::NotIdentified:
      return "not_identified";
    case Reason::OtherSandbox:
      return "other_sandbox";
    case Reason::BadTarget:
      return "bad_target";
    case Reason::AddressLiteral:
      return "address_literal";
    case Reason::BadPort:
      return "bad_port";
    case Reason::NoRules:
      return "no_rules";
    case Reason::NoRuleForHost:
      return "no_rule_for_host";
    case Reason::PortNotAllowed:
      return "port_not_allowed";
    case Reason::MethodNotAllowed:
      return "method_not_allowed";
    case Reason::PathNotAllowed:
      return "path_not_allowed";
    case Reason::PathAmbiguous:
      return "path_ambiguous";
    case Reason::HttpNotSeen:
      return "http_not_seen";
    case Reason::NoSuchName:
      return "no_such_name";
    case Reason::ResolverFailed:
      return "resolver_failed";
    case Reason::NoAddress:
      return "no_address";
    case Reason::TooManyAddresses:
      return "too_many_addresses";
    case Reason::ForbiddenAddress:
      return "forbidden_address";
    case Reason::BadHello:
      return "bad_hello";
    case Reason::EncryptedHello:
      return "encrypted_hello";
    case Reason::ServerNameMissing:
      return "server_name_missing";
    case Reason::ServerNameOther:
      return "server_name_other";
    case Reason::HostField:
      return "host_field";
    case Reason::RateLimited:
      return "rate_limited";
    case Reason::BytesSpent:
      return "bytes_spent";
    case Reason::NeedsTls:
      return "needs_tls";
    case Reason::SecretMissing:
      return "secret_missing";
    case Reason::NotIntercepted:
      return "not_intercepted";
    case Reason::NotRecorded:
      return "not_recorded";
  }
  return "denied";
}

std::string to_string(const Verdict& verdict) {
  return fmt::format("{}: {}", to_string(verdict.outcome), verdict.text);
}

}  // namespace caisson::egress
