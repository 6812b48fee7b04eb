// http/opening.h — the first bytes of a connection decide who reads on: HTTP/2 begins with a line
// that no HTTP/1.1 request can begin with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "http/server_core.h"

namespace caisson::http {

inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum class Dialect : std::uint8_t { None, Http1, Http2 };

// What `bytes` are the beginning of; None while they could still be either.
[[nodiscard]] Dialect dialect_of(std::string_view bytes) noexcept;

class Opening final : public Served {
 public:
  Opening(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat, Socket socket);

  // None: the peer left, or did not say within the time of a head.
  awaitable<Dialect> wait();
  // What was read so far, which whoever goes on needs, and the connection.
  [[nodiscard]] std::string take_bytes() noexcept { return std::move(bytes_); }
  [[nodiscard]] Socket take_socket() noexcept { return std::move(socket_); }

  void on_tick() override;
  void on_stop() override { cut(); }
  void cut() override;

 private:
  Socket socket_;
  std::string bytes_;
  std::uint64_t deadline_;
};

}  // namespace caisson::http
