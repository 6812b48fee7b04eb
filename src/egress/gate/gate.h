// egress/gate — one sandbox's only way out, on sockets that were opened inside its network and are
// served from outside. Start at Gate::open(): it listens; what comes in is told apart by the
// address it came to (arrival.h), read by egress/wire, judged by decide(), and only then dialled.
//
// The socket says which sandbox is calling, so one Gate serves one sandbox and never another's.
// Everything read from a client, from a name server or from upstream is hostile. Never here: which
// sandboxes exist, where rows are kept, how sockets get inside. The rules are replaced whole; open
// connections are judged again and closed when the new rules do not allow them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/gate/arrival.h"
#include "egress/gate/injection.h"
#include "egress/gate/tool_request.h"
#include "egress/wire/decision.h"
#include "egress/wire/rules.h"

namespace caisson::egress {

inline constexpr std::size_t kGateConnectionsMax = 256;  // of one sandbox, open at once

// What was opened inside. Listeners are told apart by the address a connection came to, so one is
// enough where the kernel steers, and several do where it does not.
struct InsideSockets {
  std::vector<UniqueFd> listeners;  // TCP, listening, non-blocking
  UniqueFd resolver;                // UDP, bound to kResolverPort
  std::vector<UniqueFd> held;       // whatever must stay open for the others to be reached
};

enum class Way : std::uint8_t { Http, Connect, Socks5, Transparent, Resolver, Gateway, Tool };
[[nodiscard]] std::string_view to_string(Way way) noexcept;

// One decision, for the audit, metrics and a person who asks. Never holds a secret, a query string
// or a body.
struct Passage {
  std::string sandbox;
  Way way = Way::Http;
  std::string host;  // as far as it could be read; quoted by whoever prints it
  std::uint16_t port = 0;
  std::string method;  // where HTTP is seen
  std::string path;    // without the query
  Verdict verdict;
  std::uint32_t repeats = 0;  // how many more like it were not told one by one
};

// A connection that was let through has ended.
struct Farewell {
  std::string sandbox;
  Way way = Way::Http;
  std::string host;
  std::uint16_t port = 0;
  std::optional<std::size_t> rule_index;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  nanoseconds lasted{};
};

// Who is told. All are called on the gate's executor.
struct Witness {
  // The first decision of a connection: nothing is dialled before this is done, and an error means
  // that the record cannot be kept, so the connection is refused. A connection that is allowed as
  // far as host, port and address go is told as allowed; when its first bytes are then refused,
  // that is noted.
  std::function<boost::asio::awaitable<Result<void>>(Passage)> decided;
  // Every later request on it, and refused names: told, not waited for. False: no room to keep it,
  // so it is refused.
  std::function<bool(Passage)> noted;
  std::function<void(Farewell)> ended;
};

class Authority;  // credentials/authority.h
struct Gateway;   // gateway.h
class Resolver;   // resolver.h
class TlsTrust;   // tls_client.h

// How long a gate waits. What is slower is closed, with an answer where one can be given.
struct GateTimes {
  milliseconds first{10000};    // for the first byte, and then for what it takes to judge
  milliseconds head{15000};     // for the whole head of a request
  milliseconds idle{75000};     // between two requests
  milliseconds dial{5000};      // for one address
  milliseconds answer{300000};  // for the head of an answer
  milliseconds quiet{900000};   // without a byte in either direction
};

// For the dialect with a token: whose is the value of Proxy-Authorization (empty when there is
// none)? Proxy clients are then asked for one; connections to an address inside are not.
struct Identified {
  Identified(Identity who) : identity(who) {}  // NOLINT(google-explicit-constructor): all it says
  Identity identity;
  std::shared_ptr<const std::vector<policy::NetworkEgressRule>> within{};  // none: no bound
};
using Identify = std::function<Identified(std::string_view proxy_authorization)>;

// Where clients of another dialect look for the proxy, beside its own ports of 127.0.0.1.
struct ExtraProxy {
  std::uint16_t port = 0;             // of loopback, too; 0: none
  std::optional<HostName> name = {};  // which the resolver inside answers with 127.0.0.1
};

struct GateOptions {
  std::string sandbox;
  Rules rules;
  std::shared_ptr<Resolver> resolver;  // shared by all gates: asks the world's name servers
  Witness witness;
  Identify identify{};
  GateTimes times{};
  std::string trust_store{};          // a file of certificates for fetch(); empty: the system's
  std::shared_ptr<TlsTrust> trust{};  // the same, loaded once for all gates
  // Whom the guest trusts for the names whose TLS is looked into; none: nothing is.
  std::shared_ptr<Authority> authority{};
  FindSecret secrets{};                // that rules name, and the gateway's keys
  std::shared_ptr<Gateway> gateway{};  // none: no language models
  ExtraProxy proxy{};
};

struct GateCounts {
  std::uint64_t connections = 0;
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  std::size_t open = 0;
};

class GateCore;  // gate_core.h

class Gate {
 public:
  // Takes the sockets and serves until closed. Nothing of the gate runs after close() returned.
  [[nodiscard]] static Result<std::unique_ptr<Gate>> open(boost::asio::any_io_executor executor,
                                                          InsideSockets sockets,
                                                          GateOptions options);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate();

  // A connection that came in another way than by our listeners, such as a stream out of a guest
  // with a kernel of its own; whoever hands it over says where it was meant to go.
  // `early` was read from it already.
  void take(UniqueFd connection, Arrival arrival, std::string early = {});

  // A tool's own request: judged, recorded, resolved and dialled like a guest's, with verified TLS
  // for https. A refusal is Denied (Exhausted beyond a rate) with the verdict's text. The gate
  // stays until it is done.
  [[nodiscard]] boost::asio::awaitable<Result<ToolAnswer>> fetch(ToolRequest request);

  void replace_rules(Rules rules);
  [[nodiscard]] GateCounts counts() const noexcept;
  void close() noexcept;

 private:
  explicit Gate(std::shared_ptr<GateCore> core) noexcept;
  std::shared_ptr<GateCore> core_;
};

}  // namespace caisson::egress
