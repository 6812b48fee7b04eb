// Beast's WebSocket stream behind our interface. Only this file sees its templates: they take half
// a minute to compile.
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/error.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <chrono>

#include "http/connection.h"

namespace caisson::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;

namespace {

using Stream = websocket::stream<Socket, false>;  // false: no permessage-deflate, so no zip bombs

class BeastSocket final : public WebSocket {
 public:
  BeastSocket(std::shared_ptr<ServerCore> core, Socket socket, std::shared_ptr<Wire> wire)
      : core_(std::move(core)), wire_(std::move(wire)), stream_(std::move(socket)) {}
  ~BeastSocket() override { wire_->fd = -1; }
  BeastSocket(const BeastSocket&) = delete;
  BeastSocket& operator=(const BeastSocket&) = delete;
  BeastSocket(BeastSocket&&) = delete;
  BeastSocket& operator=(BeastSocket&&) = delete;

  awaitable<Result<void>> accept(Request request, std::string protocol);
  awaitable<Result<std::optional<Message>>> read() override;
  awaitable<Result<void>> write(std::string_view bytes, bool text) override;
  awaitable<void> close(std::uint16_t code, std::string_view reason) override;

 private:
  void arm() noexcept { wire_->deadline = core_->tick + core_->limits.stall_seconds + 1; }

  std::shared_ptr<ServerCore> core_;
  std::shared_ptr<Wire> wire_;
  Stream stream_;
  beast::flat_buffer buffer_;
};

awaitable<Result<void>> BeastSocket::accept(Request request, std::string protocol) {
  const Limits& limits = core_->limits;
  websocket::stream_base::timeout timeout{};
  timeout.handshake_timeout = std::chrono::seconds(limits.header_seconds);
  timeout.idle_timeout = std::chrono::seconds(limits.idle_seconds);
  timeout.keep_alive_pings = true;  // a peer that answers no ping for the idle time is gone
  stream_.set_option(timeout);
  stream_.read_message_max(limits.websocket_message_bytes_max);
  stream_.auto_fragment(false);
  const auto decorate = [id = request.id, protocol](websocket::response_type& response) {
    response.set(beast::http::field::server, "caisson");
    response.set("X-Request-Id", id);
    if (!protocol.empty()) response.set("Sec-WebSocket-Protocol", protocol);
  };
  stream_.set_option(websocket::stream_base::decorator(decorate));
  beast::http::request<beast::http::empty_body> head;
  head.method(beast::http::verb::get);
  head.target(request.target);
  head.version(11);
  for (const Field& field : request.fields) head.insert(field.name, field.value);
  error_code ec;
  co_await stream_.async_accept(head, asio::redirect_error(asio::use_awaitable, ec));
  if (ec) co_return failure(Errc::Gone, "WebSocket handshake: " + ec.message());
  co_return Result<void>();
}

awaitable<Result<std::optional<Message>>> BeastSocket::read() {
  using Got = Result<std::optional<Message>>;
  error_code ec;
  buffer_.clear();
  co_await stream_.async_read(buffer_, asio::redirect_error(asio::use_awaitable, ec));
  if (!ec) {
    Message message{stream_.got_text(), beast::buffers_to_string(buffer_.data())};
    // A large message must not keep its memory for the life of the connection.
    constexpr std::size_t kKeepBytes = 64UL * 1024;
    buffer_.clear();
    if (buffer_.capacity() > kKeepBytes) buffer_.shrink_to_fit();
    co_return Got(std::move(message));
  }
  if (ec == websocket::error::closed || ec == asio::error::eof ||
      ec == asio::error::connection_reset) {
    co_return Got(std::nullopt);
  }
  if (ec == websocket::error::message_too_big || ec == websocket::error::buffer_overflow) {
    co_return failure(Errc::TooLarge,
                      "WebSocket message: at most " +
                          std::to_string(core_->limits.websocket_message_bytes_max) + " bytes");
  }
  if (ec == beast::error::timeout) {
    co_return failure(Errc::TimedOut, "the WebSocket's peer answers no ping");
  }
  if (ec == asio::error::operation_aborted) co_return failure(Errc::Gone, "WebSocket: cancelled");
  co_return failure(Errc::Protocol, "WebSocket: " + ec.message());
}

awaitable<Result<void>> BeastSocket::write(std::string_view bytes, bool text) {
  error_code ec;
  stream_.text(text);
  arm();
  co_await stream_.async_write(asio::buffer(bytes.data(), bytes.size()),
                               asio::redirect_error(asio::use_awaitable, ec));
  wire_->deadline = 0;
  if (ec) co_return failure(Errc::Gone, "WebSocket: " + ec.message());
  co_return Result<void>();
}

awaitable<void> BeastSocket::close(std::uint16_t code, std::string_view reason) {
  websocket::close_reason why(static_cast<websocket::close_code>(code));
  constexpr std::size_t kReasonBytesMax = 123;  // of a control frame's 125, less the code
  const std::string_view cut = reason.substr(0, kReasonBytesMax);
  why.reason.assign(cut.data(), cut.size());
  error_code ec;
  arm();
  co_await stream_.async_close(why, asio::redirect_error(asio::use_awaitable, ec));
  wire_->deadline = 0;
}

}  // namespace

awaitable<Result<std::unique_ptr<WebSocket>>> open_websocket(std::shared_ptr<ServerCore> core,
                                                             Socket socket,
                                                             std::shared_ptr<Wire> wire,
                                                             Request request,
                                                             std::string protocol) {
  auto opened = std::make_unique<BeastSocket>(std::move(core), std::move(socket), std::move(wire));
  auto accepted = co_await opened->accept(std::move(request), std::move(protocol));
  if (!accepted) co_return std::unexpected(accepted.error());
  co_return std::unique_ptr<WebSocket>(std::move(opened));
}

}  // namespace caisson::http
