// http — HTTP/1.1, HTTP/2 and WebSocket for a server, on Asio. Start here: a Handler is given one
// Exchange per request, whichever protocol brought it. server.h listens and keeps the limits,
// tls_front.h puts TLS in front; connection.h is HTTP/1.1 and http2_connection.h the other. Never
// here: routes, tokens, sandboxes.
//
// Everything runs on one thread, the I/O thread. Parsing is Beast's, and what it lets pass that a
// proxy in front might read otherwise is refused: both Content-Length and Transfer-Encoding, two
// lengths, obsolete folding, bare CR or LF, spaces before the colon, a missing or second Host.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "http/field.h"

namespace caisson::http {

using boost::asio::awaitable;

// Limits of one server; each has a test that reaches it.
struct Limits {
  std::size_t header_bytes_max = 32UL * 1024;
  std::size_t headers_max = 100;
  std::size_t target_bytes_max = 8UL * 1024;
  std::size_t connections_max = 4096;
  std::size_t connections_per_peer_max = 512;  // loopback peers share this too: see server.h
  std::size_t websocket_message_bytes_max = 1024UL * 1024;
  std::uint32_t header_seconds = 15;  // for a whole request head, however slowly it drips
  std::uint32_t idle_seconds = 75;    // between requests
  std::uint32_t stall_seconds = 60;   // an answer that makes no progress, or a body that brings
                                      // less than kProgressBytesMin in that time

  // HTTP/2 beside HTTP/1.1 on the same port: the first bytes decide.
  bool http2 = false;
  std::uint32_t h2_streams_max = 128;  // of a connection, those included whose handler still ends
  std::uint32_t h2_stream_window = 256 * 1024;       // of a body that nobody has read yet
  std::uint32_t h2_connection_window = 1024 * 1024;  // of all of them
  std::uint32_t h2_resets_per_second_max = 100;
  std::uint32_t h2_control_frames_per_second_max = 1000;  // those that carry nothing
};

struct Peer {
  std::string address;  // "127.0.0.1", "::1", "unix"
  std::uint16_t port = 0;
  bool local = false;  // loopback or a unix socket
};

enum class Method : std::uint8_t { Get, Head, Post, Put, Patch, Delete, Options, Other };
[[nodiscard]] std::string_view to_string(Method method) noexcept;

struct Request {
  Method method = Method::Get;
  std::string method_text;
  std::string target;  // as sent
  std::string path;    // before '?', still percent-encoded
  std::string query;   // after it, still encoded
  std::vector<Field> fields;
  std::optional<std::uint64_t> content_length;
  bool has_body = false;
  bool wants_websocket = false;
  Peer peer;
  std::string id;  // request id: 16 hex digits of our own

  // The value of the only field of that name; empty when there is none. Names compare without case.
  [[nodiscard]] std::string_view field(std::string_view name) const noexcept;
  [[nodiscard]] std::size_t count(std::string_view name) const noexcept;
};

struct Message {
  bool text = false;
  std::string bytes;
};

// An accepted WebSocket. One reader and one writer at a time; it goes before its Exchange does, and
// with it the connection. Pings are answered inside, and a peer that answers none is gone after the
// idle time.
class WebSocket {
 public:
  virtual ~WebSocket() = default;
  // The next whole message; nothing when the peer has closed.
  virtual awaitable<Result<std::optional<Message>>> read() = 0;
  virtual awaitable<Result<void>> write(std::string_view bytes, bool text) = 0;
  virtual awaitable<void> close(std::uint16_t code, std::string_view reason) = 0;
};

// One request and its one answer. It lives as long as handle() runs: nothing that was spawned from
// there may use it longer.
class Exchange {
 public:
  virtual ~Exchange() = default;
  [[nodiscard]] virtual const Request& request() const noexcept = 0;

  // --- the body. "100 Continue" is sent by the first read.
  // The next bytes into `out`; 0 at the end.
  virtual awaitable<Result<std::size_t>> read_some(std::span<std::byte> out) = 0;

  // --- the answer. A field with CR, LF or NUL in it is a bug of ours and is dropped; so are those
  // that are set here (Content-Type, Content-Length, Date, …), and Connection and Upgrade but for a
  // 101. A second value replaces the first, except for Set-Cookie.
  virtual void set(std::string_view name, std::string_view value) = 0;
  virtual awaitable<void> respond(unsigned status, std::string_view content_type,
                                  std::string body) = 0;
  // A streamed one: with a length, or chunked without. write() waits while the peer is slow, and
  // fails with Gone when it has left. end() of a HEAD request has sent no body.
  virtual awaitable<Result<void>> begin(unsigned status, std::string_view content_type,
                                        std::optional<std::uint64_t> length) = 0;
  virtual awaitable<Result<void>> write(std::span<const std::byte> bytes) = 0;
  virtual awaitable<Result<void>> end() = 0;
  // A field after the body, sent by end(), or by respond(), where it joins the head when there is
  // no body. HTTP/1.1 sends none.
  virtual void set_trailer(std::string_view /*name*/, std::string_view /*value*/) {}
  [[nodiscard]] virtual bool http2() const noexcept { return false; }
  [[nodiscard]] virtual bool begun() const noexcept = 0;
  [[nodiscard]] virtual unsigned status() const noexcept = 0;  // 0 before
  // Ends the connection after this answer: what is on the wire cannot be trusted any more.
  virtual void close_after() = 0;

  // Ends the connection now, or its stream in HTTP/2, whatever is under way: every wait of this
  // exchange, and of the WebSocket that came of it, ends as if the peer had left.
  virtual void cut() = 0;
  // Returns when the peer has hung up or closed its sending half (or when cancelled): for whoever
  // must stop a command whose caller has left. In HTTP/2 that is a reset: the end of a body is
  // none.
  virtual awaitable<void> wait_for_hangup() = 0;

  virtual awaitable<Result<std::unique_ptr<WebSocket>>> accept_websocket(
      std::string_view protocol) = 0;
  // The bare connection, for a proxy that switches protocols: bytes in and out.
  virtual awaitable<Result<std::size_t>> raw_read(std::span<std::byte> out) = 0;
  virtual awaitable<Result<void>> raw_write(std::span<const std::byte> bytes) = 0;
};

class Handler {
 public:
  virtual ~Handler() = default;
  virtual awaitable<void> handle(Exchange& exchange) = 0;
};

// Percent-decoding of one path segment or query value: nothing when it is malformed or decodes to
// a NUL.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text,
                                                        bool plus_is_space = false);
// Name and value pairs of a query, decoded, in order; nothing when malformed or more than `max`.
[[nodiscard]] std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(
    std::string_view query, std::size_t max = 64);

}  // namespace caisson::http
