// egress/wire/decision.h — the one function that says whether a connection or request may leave.
// It is asked again as more becomes known, always with everything known so far, and goes through
// the same steps in the same order each time:
//
//   1  who: the listener and the token name one sandbox (found by the caller, judged here)
//   2  the host and port could be read, and the host is a name
//   3  the first rule that fits; no rule, no connection. A default (`otherwise`) is no rule for a
//      host that a rule before it names
//   4  every address of the name is public, or granted by that very rule
//   5  what the client says first agrees: SNI or Host equals the name, and nothing is hidden
//
// An answer that is neither Allow nor Deny names what must be found out next. Until Allow not one
// byte of the guest is sent on. The text is for the audit and for a person who asks why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "egress/wire/address_class.h"
#include "egress/wire/client_hello.h"
#include "egress/wire/host_name.h"
#include "egress/wire/ip_address.h"
#include "egress/wire/proxy_target.h"
#include "egress/wire/rules.h"

namespace caisson::egress {

// An answer with more is refused whole, not judged in part.
inline constexpr std::size_t kResolvedAddressesMax = 64;

// Step 1, as the caller found it.
enum class Identity : std::uint8_t {
  Confirmed,  // the listener names the sandbox, and a token, where one is wanted, agrees
  Unknown,    // no token, or one that is not valid
  Other,      // a valid token of another sandbox
};

// Step 2: a host, the address that stood in its place, or why it could not be read.
using HostSeen = std::variant<HostName, IpAddress, HostFault, TargetRefusal>;

// Step 5: the first thing the client says on the connection.
struct TlsSeen {
  ClientHello hello;
};
struct TlsRefused {
  HelloFault fault = HelloFault::Malformed;
};
struct HttpSeen {
  std::string method;
  std::string path;  // with the query
  // The Host field against the name of the connection: check_host_field()'s answer.
  std::optional<TargetRefusal> host_field;
};
struct OtherSeen {};    // neither TLS nor HTTP: it names no second host
struct NothingSeen {};  // the client has said nothing yet

using FirstBytes = std::variant<NothingSeen, TlsSeen, TlsRefused, HttpSeen, OtherSeen>;

// Can we read the requests on this connection? Then methods and paths are judged one by one.
enum class Sight : std::uint8_t { Opaque, Readable };

struct Request {
  Identity identity = Identity::Unknown;
  HostSeen host = HostFault::Empty;
  std::uint16_t port = 0;
  Sight sight = Sight::Opaque;
  FirstBytes first = NothingSeen{};
  // Hosts that the caller's token allows, where it came with one: a rule must allow it as well.
  std::shared_ptr<const std::vector<policy::NetworkEgressRule>> within{};
  bool verified = false;  // TLS to the host, its certificate verified: a secret may go there
};

// Step 4, once the resolver was asked.
enum class Resolution : std::uint8_t { NotAsked, Answered, NoSuchName, Failed };
struct Resolved {
  Resolution state = Resolution::NotAsked;
  std::vector<IpAddress> addresses;
};

enum class Outcome : std::uint8_t {
  Deny,
  NeedAddresses,   // allowed so far: resolve the name, then ask again
  NeedFirstBytes,  // connect to one of the addresses, but hold back the client's first bytes
  Allow,
};

enum class Reason : std::uint8_t {
  Allowed,
  MoreIsNeeded,
  NotIdentified,
  OtherSandbox,
  BadTarget,
  AddressLiteral,
  BadPort,
  NoRules,
  NoRuleForHost,
  PortNotAllowed,
  MethodNotAllowed,
  PathNotAllowed,
  PathAmbiguous,  // written so that a server could read it as another path
  HttpNotSeen,    // the rule speaks of methods or paths, and the connection hides them
  NoSuchName,
  ResolverFailed,
  NoAddress,
  TooManyAddresses,
  ForbiddenAddress,
  BadHello,
  EncryptedHello,
  ServerNameMissing,
  ServerNameOther,
  HostField,
  RateLimited,
  BytesSpent,
  NeedsTls,        // the rule adds a secret, and this is clear text
  SecretMissing,   // the rule adds one that is not there
  NotIntercepted,  // the rule looks into TLS, and that cannot be done here
  NotRecorded,     // allowed, but the record of it cannot be kept
};

[[nodiscard]] std::string_view to_string(Outcome outcome) noexcept;
// A short word for the audit and for metrics: "forbidden_address".
[[nodiscard]] std::string_view to_string(Reason reason) noexcept;

struct Verdict {
  Outcome outcome = Outcome::Deny;
  Reason reason = Reason::NoRules;
  std::optional<std::size_t> rule_index;  // the rule that fits, or that came nearest
  std::string text;
  std::vector<IpAddress> addresses;  // judged and unmapped; connect to these and to no others

  [[nodiscard]] bool allowed() const noexcept { return outcome == Outcome::Allow; }
};

[[nodiscard]] Verdict decide(const Request& request, const Rules& rules, const Resolved& resolved);

// Step 8: a verdict that was not Deny becomes one, because what its rule gives is spent.
[[nodiscard]] Verdict over_rate(Verdict verdict, const Rules& rules, nanoseconds wait);
[[nodiscard]] Verdict over_bytes(Verdict verdict, const Rules& rules);

// May our resolver answer this name? The same rules, without a port.
[[nodiscard]] Verdict decide_name(const HostName& host, const Rules& rules);

// "allowed: rule 0 (*.example.com): api.example.com:443".
[[nodiscard]] std::string to_string(const Verdict& verdict);

}  // namespace caisson::egress
