// doors/grpc — the API of agentbox (api/sandbox/v1/sandbox.proto), by gRPC over HTTP/2 and by
// gRPC-Web, on one port. Start at Door::handle in door.cc: every call passes method, caller,
// message and deadline there. methods.cc is the list of methods; sessions.h knows which sandbox a
// session is; *_calls.cc are the methods themselves. Health and reflection are services beside it.
//
// HTTP/2 is http's, by nghttp2, on the server's one thread: Debian's gRPC library would bring
// threads of its own and a server whose known holes (rapid reset among them) nobody mends there.
// What is left of gRPC is a frame of five bytes and two trailers, which gRPC-Web needs in any case.
//
// Never here: how a sandbox is made, how HTTP is read.
#pragma once

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
#include "http/http.h"

namespace caisson::grpc {

using boost::asio::awaitable;

// One answered call, for whoever writes it down.
struct RequestLine {
  std::string_view request_id;
  std::string_view path;
  std::string_view code;  // of gRPC, in words
  unsigned status = 0;    // of HTTP
  microseconds took{0};
  std::string_view peer;
  std::string_view actor;
  std::string_view tenant;
};

struct GrpcOptions {
  bool open = false;  // nobody needs a token; this machine only
  std::vector<std::string> web_origins;
  std::size_t message_bytes_max = 4UL * 1024 * 1024;

  std::string image;  // empty: the server's default
  bool storage = false;
  std::uint64_t storage_bytes = 10ULL << 30U;  // of each of a tenant's two volumes
  seconds session_timeout{1800};
  std::size_t max_sessions = 0;  // of one caller's tenant; 0: no limit here
  std::vector<std::string> allowed_hosts;
  bool read_only_root = false;
  bool keep_partial_output = false;
  std::string proxy_host;  // empty: no proxy mode
  std::uint16_t proxy_port = 15004;
  std::string pip_index_url;
  std::vector<std::string> pip_index_addresses;
  double cores = 4;
  std::uint64_t memory_bytes = 4ULL << 30U;
  double life_seconds = 0;  // the longest that the server gives; 0: control's own most

  // Bytes of messages that are held at once: by all, and by one tenant.
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
  Door(control::Fleet& fleet, control::Access& access, GrpcOptions options);
  ~Door() override;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  awaitable<void> handle(http::Exchange& exchange) override;
  // Ends sessions that nobody has used for too long; whoever has a timer calls it.
  awaitable<void> sweep();
  // Once, before anything is answered: sandboxes of sessions that an older server knew.
  awaitable<void> remove_left_over();
  // The server ends: what comes from now on is UNAVAILABLE. What is under way goes on.
  void close() noexcept;
  // In the text form of Prometheus.
  [[nodiscard]] std::string metrics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// For http::Server, whose own errors are told as plain text here.
[[nodiscard]] std::string error_body(unsigned status, const Error& error, std::string_view id);

}  // namespace caisson::grpc
