// doors/preview — a port of a sandbox as a web site of its own: NAME.VHOST and PORT-NAME.VHOST,
// where NAME is the sandbox's id. Start at Door::handle in door.cc. Who may look: everybody when
// the sandbox is public; else whoever has a cookie of this very host, which he gets from a ticket
// of one use, or who shows a token of ours in Authorization. Neither ever reaches the program
// inside. Never here: how HTTP is passed on (doors/proxy), the console, or a route of the main
// host.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "control/access.h"
#include "control/fleet.h"
#include "control/logins.h"
#include "doors/shared/request_line.h"
#include "http/http.h"

namespace caisson::preview {

using boost::asio::awaitable;

// Below it nothing of the program is reachable, on every preview host.
inline constexpr std::string_view kOwnPath = "/.caisson/";

using doors::RequestLine;

struct PreviewOptions {
  std::string vhost;             // "sandbox.example.com"; empty: there are no previews
  std::string scheme = "https";  // as browsers reach us
  std::uint16_t port = 0;        // as browsers reach us; 0: the scheme's own
  std::size_t streams_max = 2048;
  std::size_t streams_per_tenant_max = 512;
  std::size_t streams_per_sandbox_max = 256;
  std::function<void(const RequestLine&)> on_request{};
  std::function<void(std::string_view request_id, const Error&)> on_failure{};
};

// What a host name of ours means.
struct Name {
  std::string sandbox;
  std::optional<std::uint16_t> port;  // none: the likely one
};
// `host` as in a Host field. Nothing when it is no preview host of this vhost.
[[nodiscard]] std::optional<Name> parse_name(std::string_view host, std::string_view vhost);

class Door final : public http::Handler {
 public:
  // All of them outlive it.
  Door(control::Fleet& fleet, control::Access& access, control::Logins& logins,
       PreviewOptions options);
  ~Door() override;

  [[nodiscard]] bool answers(const http::Request& request) const;
  awaitable<void> handle(http::Exchange& exchange) override;

  // The address of a port, for people: "https://8080-NAME.VHOST/". Unsupported without a vhost.
  [[nodiscard]] Result<std::string> address(std::string_view sandbox,
                                            std::optional<std::uint16_t> port) const;
  // An address that lets its reader in, once and within kTicketLife.
  [[nodiscard]] Result<std::string> invitation(const control::Caller& caller,
                                               std::string_view sandbox,
                                               std::optional<std::uint16_t> port) const;
  // GET /preview/open?host=HOST&path=PATH on the main host: sends the caller to his preview with an
  // invitation, or to the login when there is none.
  awaitable<void> open(http::Exchange& exchange, const control::Caller* caller);
  // May a certificate be made for this name? (Caddy's `ask`.)
  [[nodiscard]] bool knows(std::string_view domain) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caisson::preview
