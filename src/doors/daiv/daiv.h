// doors/daiv — the API of daiv-sandbox: sessions, archives in and patches out, the file operations
// and the egress policy of its newer versions. Start at Door::handle in door.cc: every request
// passes route, JSON, key, schema and session there, in this order, because its clients tell their
// mistakes apart by it. A session is a sandbox with a label; what was said about it is in labels,
// so that it outlives the server. Words and shapes of the original are schema.h, json_input.h and
// python_text.h. Never here: how a sandbox, an archive or a patch is made; that is control's.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/access.h"
#include "control/fleet.h"
#include "doors/shared/request_line.h"
#include "http/http.h"
#include "policy/settings/daiv_settings.h"

namespace caisson::daiv {

using boost::asio::awaitable;

// One answered request, for whoever writes it down. Paths are as the client sent them, cut.
using doors::RequestLine;

struct DaivOptions {
  std::string api_key;  // empty: only tokens of the server's own
  std::string prefix = "/api/v1";
  std::string tenant = "default";  // of whoever shows the key
  std::string version = "v0.6.0";

  std::uint32_t run_uid = 1000;
  std::uint32_t run_gid = 1000;
  std::uint32_t command_timeout_seconds = 0;  // of a command without one; 0: none
  seconds lock_wait{30};                      // for a session that is in use
  // What DELETE without `force` does to a session that nothing of the older API was used with.
  bool close_removes = false;
  // The longest life that the server gives; 0: control's own most.
  double life_seconds = 0;
  std::vector<std::string> prune_dirs = policy::DaivSettings{}.prune_dirs;

  // The reaper. Per tenant.
  bool reaper = true;
  seconds reaper_interval{600};
  seconds grace{43200};          // stopped sessions are kept so long
  std::size_t max_stopped = 50;  // and so many of them
  seconds running_idle{14400};   // 0: running ones are kept

  // Bytes of bodies and files that are held at once: by all, and by one tenant.
  std::size_t held_bytes_max = 256UL * 1024 * 1024;
  std::size_t held_per_tenant_max = 128UL * 1024 * 1024;
  milliseconds held_patience{10'000};

  std::function<void(const RequestLine&)> on_request{};
  // The whole text of a failure whose client was told nothing.
  std::function<void(std::string_view request_id, const Error&)> on_failure{};
  // For tests: what time it is.
  std::function<TimePoint()> now = [] { return Clock::now(); };
  std::function<store::WallTime()> wall = [] { return store::wall_now(); };
};

class Door final : public http::Handler {
 public:
  // Both outlive the door.
  Door(control::Fleet& fleet, control::Access& access, DaivOptions options);
  ~Door() override;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Whether a path is this door's: /session…, /-/health/ and /-/version/, at the root and under the
  // prefix, with and without the last slash.
  [[nodiscard]] bool answers(std::string_view path) const;
  awaitable<void> handle(http::Exchange& exchange) override;
  // One pass of the reaper; whoever has a timer calls it every reaper_interval, first at the start.
  // Does nothing when options.reaper is off. One at a time.
  awaitable<void> sweep();
  // The server ends: what comes from now on is answered 503. What is under way goes on.
  void close() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caisson::daiv
