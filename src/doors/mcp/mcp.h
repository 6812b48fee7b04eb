// doors/mcp — the Model Context Protocol: sandboxes as tools and resources of an agent. Start at
// Door::handle in door.cc: a request passes Host, Origin and token there. http_talk.cc is the
// streamable HTTP of /mcp, stream_talk.cc the same messages line by line over a WebSocket, for
// `caisson mcp`. Both read messages (message.h), find out which revision is spoken (protocol.h) and
// hand them to dispatch.cc; tool_table.cc says what tools there are. Never here: how a command
// runs or a file is changed; that is control's.
//
// Two eras. From 2026-07-28 on a request says everything about itself, and calls name their
// sandbox. Before it a client says `initialize` first and has a session, which owns one sandbox.
#pragma once

#include <boost/asio/any_io_executor.hpp>
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
#include "doors/shared/guard.h"
#include "doors/shared/request_line.h"
#include "http/http.h"

namespace caisson::mcp {

using boost::asio::awaitable;

using doors::RequestLine;

struct McpOptions {
  doors::HostRules hosts;
  bool open = false;  // nobody needs a token; then only this machine is answered
  std::string version;

  // Of the sandboxes that calls make when they name none.
  std::string profile;           // empty: none
  double life_seconds = 28'800;  // from its creation
  double idle_seconds = 1'800;   // since it was last asked for something
  std::size_t sandboxes_per_token = 8;
  // A call of the newer era that names no sandbox means its token's own one; else it gets a new
  // one.
  bool one_sandbox_per_token = false;

  std::size_t sessions_max = 1024;
  std::size_t sessions_per_token = 32;
  seconds session_idle{3600};
  std::size_t streams_max = 512;  // of messages from the server
  std::size_t streams_per_token = 16;
  seconds keep_alive{15};  // between comments on a quiet stream
  milliseconds progress_every{1000};

  // Bytes of bodies and answers that are held at once: by all, and by one tenant.
  std::size_t held_bytes_max = 256UL * 1024 * 1024;
  std::size_t held_per_tenant_max = 64UL * 1024 * 1024;
  milliseconds held_patience{10'000};

  // Where a port of a sandbox is shown; without it the server has no previews.
  struct Preview {
    std::string url;
    std::string invitation;  // lets its reader in once
  };
  std::function<Result<Preview>(const control::Caller& caller, std::string_view sandbox,
                                std::optional<std::uint16_t> port)>
      preview{};

  std::function<void(const RequestLine&)> on_request{};
  std::function<void(std::string_view request_id, const Error&)> on_failure{};
  std::function<TimePoint()> now = [] { return Clock::now(); };  // for tests
};

class Door final : public http::Handler {
 public:
  // Both outlive the door, and the executor is of the one I/O thread.
  Door(boost::asio::any_io_executor executor, control::Fleet& fleet, control::Access& access,
       McpOptions options);
  ~Door() override;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  [[nodiscard]] static bool answers(std::string_view path) noexcept { return path == "/mcp"; }
  awaitable<void> handle(http::Exchange& exchange) override;
  // Ends sessions that nobody uses; whoever has a timer calls it now and then.
  awaitable<void> sweep();
  // What comes from now on is answered 503; what is under way goes on.
  void close() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caisson::mcp
