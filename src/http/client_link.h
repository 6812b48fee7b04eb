// http/client_link.h — the client's connection: bytes out, and the parts of an answer in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "http/client.h"

namespace caisson::http {

class ClientLink {
 public:
  [[nodiscard]] static Result<UniqueFd> connect_unix(const std::string& path);
  [[nodiscard]] static Result<UniqueFd> connect_tcp(const std::string& host, std::uint16_t port,
                                                    milliseconds timeout);

  ClientLink(UniqueFd fd, std::optional<milliseconds> stall) : fd_(std::move(fd)), stall_(stall) {}

  // Whether another request can be sent: a server that has closed meanwhile, or that says
  // something nobody asked for, is not asked again.
  [[nodiscard]] bool fresh() const noexcept;
  [[nodiscard]] bool readable() const noexcept;
  [[nodiscard]] Result<void> send(std::string_view bytes);

  // The next head that is not an interim one.
  [[nodiscard]] Result<ClientAnswer> read_head();
  // The body behind it; `method` and status say whether there is one. The reader may say false to
  // leave. True: the connection can be used again.
  using Reader = std::function<Result<bool>(std::string_view)>;
  [[nodiscard]] Result<bool> read_body(std::string_view method, const ClientAnswer& answer,
                                       const Reader& reader);
  // For events: the end of patience, instead of the stall time. Then TimedOut.
  void set_patience(std::optional<milliseconds> patience) noexcept { stall_ = patience; }

  [[nodiscard]] UniqueFd release() noexcept { return std::move(fd_); }
  [[nodiscard]] std::string take_rest() noexcept { return std::exchange(in_, {}); }

 private:
  // More into in_; false at the end of the stream.
  [[nodiscard]] Result<bool> fill();
  [[nodiscard]] Result<void> wait(short events) const;
  [[nodiscard]] Result<bool> read_chunked(const Reader& reader);
  [[nodiscard]] Result<bool> read_sized(std::uint64_t left, const Reader& reader);
  [[nodiscard]] Result<bool> read_to_end(const Reader& reader);

  UniqueFd fd_;
  std::optional<milliseconds> stall_;
  std::string in_;
};

// One whole head, "HTTP/1.1 200 OK\r\n…\r\n\r\n", as an answer without its body.
[[nodiscard]] Result<ClientAnswer> parse_answer_head(std::string_view head);

}  // namespace caisson::http
