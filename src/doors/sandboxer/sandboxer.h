// doors/sandboxer — the API of sandboxer: sandboxes from images with a main process, forks in a
// tree, a terminal, logs, history, files, events and a proxy. Start at Door::handle in door.cc: it
// judges host, person, route, scope and body, in this order, as the original does. A *row* (rows.h)
// is what a client sees of a sandbox; it outlives the sandbox and the server. Its main process
// (main_process.h) is the image's own command: when it ends, so does the sandbox. What the original
// answers wrongly is answered rightly here, in its words and shapes. Never here: how a sandbox, a
// fork or a file is made; that is control's.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/access.h"
#include "control/fleet.h"
#include "control/history.h"
#include "control/logins.h"
#include "control/people.h"
#include "doors/shared/guard.h"
#include "doors/shared/request_line.h"
#include "http/http.h"

namespace caisson::sandboxer {

using boost::asio::awaitable;

// One answered request, for whoever writes it down. Paths are as the client sent them, cut.
using doors::RequestLine;

struct SandboxerOptions {
  doors::HostRules hosts;
  bool open = false;  // nobody needs a token, and only this machine may ask

  // Addresses that are shown to people: SCHEME://NAME.VHOST[:PORT], where there is a vhost.
  std::string vhost;
  std::string scheme = "https";
  std::uint16_t port = 0;  // 0: the scheme's own
  // The address of a sandbox's page; empty, or an error: the one below /sandboxes/NAME/proxy/.
  std::function<Result<std::string>(std::string_view sandbox)> address{};

  // Of every sandbox of this door.
  double cpu = 0.5;
  std::uint64_t memory_bytes = 512ULL << 20U;
  std::uint64_t disk_bytes = 5ULL << 30U;
  std::uint32_t processes = 1024;
  double life_seconds = 0;             // the longest that the server gives; 0: control's own most
  std::optional<std::string> profile;  // network and whatever else it says
  bool disk = true;                    // files on disk, so that a fork costs no copy

  milliseconds wait_for_port{2000};  // that the image exposes, before a create or fork answers
  seconds pull_timeout{600};         // of an image that is not here
  // A client that hears nothing for 5 s gives up: after so long, blanks are sent before the answer.
  milliseconds patience{2000};
  milliseconds keep_alive{15'000};  // between comments of the event stream

  std::size_t rows_max = 10'000;  // of one tenant; the oldest terminated ones make room
  std::size_t streams_max = 2048;
  std::size_t streams_per_tenant_max = 256;
  std::uint64_t upload_bytes_max = 4ULL << 30U;  // of one request
  std::size_t held_bytes_max = 256UL * 1024 * 1024;
  std::size_t held_per_tenant_max = 64UL * 1024 * 1024;
  seconds cookie_life = control::kConsoleLife;

  std::function<void(const RequestLine&)> on_request{};
  // The whole text of a failure whose client was told nothing.
  std::function<void(std::string_view request_id, const Error&)> on_failure{};
  std::function<store::WallTime()> wall = [] { return store::wall_now(); };
};

// What another installation had. Its sandboxes are gone: they come as terminated rows.
struct ImportWish {
  struct Sandbox {
    std::string id;    // 64 hex digits
    std::string name;  // 26 characters
    std::string label;
    std::string image;
    std::optional<std::string> parent_id;
    double last_active_at = 0;  // seconds since 1970
    std::optional<double> deleted_at;
    std::string delete_reason;  // empty: "imported"
    bool is_public = false;
  };
  struct Log {
    std::int64_t fd = 1;
    std::string content;
    double created_at = 0;
  };
  struct Execution {
    std::string id;
    std::string sandbox_id;
    std::string command;
    std::optional<std::int64_t> exit_code;
    double executed_at = 0;
    std::vector<Log> logs;
  };
  std::string tenant;
  std::vector<Sandbox> sandboxes;
  std::vector<Execution> executions;
};

struct ImportCount {
  std::size_t sandboxes = 0;
  std::size_t executions = 0;
  std::size_t skipped = 0;  // they are here already
};

struct Counts {
  std::size_t rows = 0;
  std::size_t living = 0;
  std::size_t streams = 0;
};

class Door final : public http::Handler {
 public:
  // All of them outlive the door; `executor` is of the one I/O thread.
  Door(boost::asio::any_io_executor executor, control::Fleet& fleet, control::Access& access,
       control::Logins& logins, control::People& people, control::History& history,
       SandboxerOptions options);
  ~Door() override;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Takes up what an earlier server left: before the first request. Waits for the disk.
  awaitable<Result<void>> open();
  // /sandboxes, /volumes, /events and /auth with what is below them.
  [[nodiscard]] bool answers(const http::Request& request) const;
  awaitable<void> handle(http::Exchange& exchange) override;
  // Admins only. What is here already is skipped, so a second import changes nothing.
  awaitable<Result<ImportCount>> import(const control::Caller& caller, ImportWish wish);
  [[nodiscard]] Counts counts() const;
  // The server ends: what comes from now on is answered 503, streams end, rows stay as they are.
  void close() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace caisson::sandboxer
