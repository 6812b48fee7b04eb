// doors/rest — caisson's own REST API, as api/openapi.yaml says it. Start at Door::handle in
// door.cc: every request passes Host, route, token, scope and query there, in this order, and only
// then reaches its handler. routes.cc is the one table of routes; a route without a scope cannot be
// written down. Each handler reads its input strictly (json_reader.h, wishes.h), makes one call of
// control, and writes the answer (views.h). Never here: decisions about sandboxes, sockets that
// listen, SQL.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "control/access.h"
#include "control/fleet.h"
#include "control/logins.h"
#include "control/people.h"
#include "doors/shared/guard.h"
#include "http/http.h"
#include "store/store.h"

namespace caisson::rest {

using boost::asio::awaitable;

// One answered request. Paths are as the client sent them: whoever writes them down quotes them.
struct RequestLine {
  std::string_view request_id;
  std::string_view method;
  std::string_view path;   // without the query, cut
  std::string_view route;  // its template, or empty
  unsigned status = 0;
  microseconds took{0};
  std::string_view peer;
  std::string_view actor;
  std::string_view tenant;
};

class Log {
 public:
  virtual ~Log() = default;
  virtual void request(const RequestLine& line) = 0;
  // The whole text of a failure whose client was told an id only.
  virtual void failed(std::string_view request_id, const Error& error) = 0;
};

struct DoorOptions {
  doors::HostRules hosts;
  bool open = false;  // nobody needs a token; then only this machine is answered
  std::string version;
  std::function<std::string()> extra_metrics;  // more lines for /metrics
  seconds keep_alive{15};                      // between comments on a quiet event stream
  std::size_t streams_max = 1024;              // event streams and WebSockets at once
  std::size_t streams_per_caller_max = 128;
  // Bytes of bodies and answers that are held at once (budget.h): by all, and by one tenant.
  std::size_t held_bytes_max = 256UL * 1024 * 1024;
  std::size_t held_per_tenant_max = 64UL * 1024 * 1024;
  milliseconds held_patience{10'000};  // for room

  // What others know; without them their routes say Unsupported, and there is no login by cookie.
  control::Logins* logins = nullptr;
  control::People* people = nullptr;
  std::string vhost;                  // under which previews are; shown
  std::vector<std::string> profiles;  // names of them; shown
  std::string default_image = "host";
  std::vector<std::string> tiers{"native"};  // that the launcher has; shown
  // Addresses of a port of a sandbox: for whoever may look, and one that lets its reader in once.
  struct Preview {
    std::string url;
    std::string invitation;
  };
  std::function<Result<Preview>(const control::Caller& caller, std::string_view sandbox,
                                std::optional<std::uint16_t> port)>
      preview;
  // Sandboxes that another server had, as they stood in its list.
  std::function<awaitable<Result<boost::json::object>>(const control::Caller& caller,
                                                       boost::json::object body)>
      import_listings;
};

class Door final : public http::Handler {
 public:
  // All of them outlive the door.
  Door(control::Fleet& fleet, control::Access& access, store::Store& store, Log& log,
       DoorOptions options);
  ~Door() override;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  awaitable<void> handle(http::Exchange& exchange) override;
  // The server ends: what comes from now on is answered 503. What is under way goes on.
  void close() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The body of an error, for answers that the HTTP parser makes before a door is asked.
[[nodiscard]] std::string error_body(unsigned status, const Error& error, std::string_view id);

}  // namespace caisson::rest
