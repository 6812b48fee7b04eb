// Into a port of a sandbox: HTTP/1.1, and WebSockets as bare bytes once both sides have agreed.
//
// One connection inside serves one request. Its answer is parsed, bounded, and framed anew, so what
// a guest sends cannot be taken for a second answer. Both bodies are streamed, piece by piece.
#include <fmt/format.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <vector>

#include "doors/rest/handlers.h"
#include "doors/rest/proxy_head.h"

namespace caisson::rest {

namespace asio = boost::asio;
namespace beast = boost::beast;

namespace {

using Tcp = asio::ip::tcp;
using Parser = beast::http::response_parser<beast::http::buffer_body>;

constexpr std::uint32_t kHeadBytesMax = 64 * 1024;
constexpr int kInformationalMax = 8;  // answers of 1xx before the real one
constexpr std::size_t kPieceBytes = 64UL * 1024;
constexpr seconds kAnswerTimeout{300};  // for the head of the answer
constexpr seconds kStallTimeout{60};    // for one piece of the request's body
constexpr seconds kQuietTimeout{900};   // without a byte of an answer that has begun

struct Inside {
  Tcp::socket socket;
  beast::flat_buffer buffer{kHeadBytesMax + kPieceBytes};
  std::uint16_t port = 0;
};

awaitable<void> after(seconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  boost::system::error_code ec;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
}

std::unexpected<Error> silent(std::uint16_t port, std::string_view what) {
  return failure(Errc::Protocol, fmt::format("port {} {}", port, what));
}

awaitable<boost::system::error_code> write_all(Tcp::socket& socket,
                                               std::span<const std::byte> bytes) {
  boost::system::error_code ec;
  co_await asio::async_write(socket, asio::buffer(bytes.data(), bytes.size()),
                             asio::redirect_error(asio::use_awaitable, ec));
  co_return ec;
}

// Fails when the program does not take it in time.
awaitable<Result<void>> send_inside(Inside& inside, std::span<const std::byte> bytes) {
  using namespace asio::experimental::awaitable_operators;
  const auto first = co_await (write_all(inside.socket, bytes) || after(kStallTimeout));
  if (first.index() == 1) co_return failure(Errc::TimedOut, "the program does not read its input");
  if (std::get<0>(first)) co_return silent(inside.port, "closed the connection");
  co_return Result<void>{};
}

awaitable<Result<void>> send_text(Inside& inside, std::string text) {
  co_return co_await send_inside(inside, std::as_bytes(std::span(text)));
}

awaitable<Result<void>> send_body(Call& call, Inside& inside) {
  const http::Request& request = call.request();
  if (!request.has_body) co_return Result<void>{};
  const bool chunked = !request.content_length;
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    const auto got = co_await call.exchange.read_some(piece);
    if (!got) co_return std::unexpected(got.error());
    if (chunked) {
      const std::string size = *got == 0 ? "0\r\n\r\n" : fmt::format("{:x}\r\n", *got);
      if (auto sent = co_await send_text(inside, size); !sent) co_return sent;
    }
    if (*got == 0) co_return Result<void>{};
    auto sent = co_await send_inside(inside, std::span(piece).first(*got));
    if (!sent) co_return sent;
    if (chunked) {
      if (auto ended = co_await send_text(inside, "\r\n"); !ended) co_return ended;
    }
  }
}

awaitable<boost::system::error_code> read_head(Inside& inside, Parser& parser) {
  boost::system::error_code ec;
  co_await beast::http::async_read_header(inside.socket, inside.buffer, parser,
                                          asio::redirect_error(asio::use_awaitable, ec));
  co_return ec;
}

void configure(Parser& parser, bool head) {
  parser.header_limit(kHeadBytesMax);
  parser.body_limit(boost::none);  // it is streamed, and the client may leave
  parser.skip(head);
}

awaitable<Result<std::unique_ptr<Parser>>> answer_head(Call& call, Inside& inside) {
  using namespace asio::experimental::awaitable_operators;
  for (int i = 0; i < kInformationalMax; ++i) {
    auto parser = std::make_unique<Parser>();
    configure(*parser, call.request().method == http::Method::Head);
    const auto first = co_await (read_head(inside, *parser) || after(kAnswerTimeout) ||
                                 call.exchange.wait_for_hangup());
    if (first.index() == 1) co_return failure(Errc::TimedOut, "the program does not answer");
    if (first.index() == 2) co_return failure(Errc::Gone, "the caller hung up");
    if (std::get<0>(first)) co_return silent(inside.port, "sent no HTTP answer");
    const unsigned status = parser->get().result_int();
    if (status == 101 || (status >= 200 && status <= 599)) co_return parser;
    if (status >= 600 || status < 100) co_return silent(inside.port, "sent an unknown status");
  }
  co_return silent(inside.port, "sent too many interim answers");
}

std::vector<http::Field> fields_of(const Parser& parser) {
  std::vector<http::Field> fields;
  for (const auto& field : parser.get()) {
    fields.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  return fields;
}

// What is there, and not a full piece: an event is passed on when it comes.
awaitable<boost::system::error_code> read_piece(Inside& inside, Parser& parser) {
  boost::system::error_code ec;
  co_await beast::http::async_read_some(inside.socket, inside.buffer, parser,
                                        asio::redirect_error(asio::use_awaitable, ec));
  co_return ec == beast::http::error::need_buffer ? boost::system::error_code() : ec;
}

// A program that sends nothing more must not keep the place of a client who has left.
awaitable<Result<void>> pass_body(Call& call, Inside& inside, Parser& parser) {
  using namespace asio::experimental::awaitable_operators;
  std::vector<char> piece(kPieceBytes);
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = piece.data();
    body.size = piece.size();
    const auto first = co_await (read_piece(inside, parser) || after(kQuietTimeout) ||
                                 call.exchange.wait_for_hangup());
    if (first.index() == 1) co_return failure(Errc::TimedOut, "the program sends nothing more");
    if (first.index() == 2) co_return failure(Errc::Gone, "the caller hung up");
    const std::size_t got = piece.size() - body.size;
    if (got > 0) {
      auto sent = co_await call.exchange.write(std::as_bytes(std::span(piece.data(), got)));
      if (!sent) co_return sent;
    }
    if (std::get<0>(first)) {
      co_return silent(inside.port, "broke off in the middle of its answer");
    }
  }
  co_return co_await call.exchange.end();
}

awaitable<Result<void>> pass_answer(Call& call, Inside& inside, Parser& parser) {
  const auto& head = parser.get();
  const std::string prefix = fmt::format("/api/v1/sandboxes/{}/ports/{}", call.id(), inside.port);
  for (const auto& field : answer_fields(fields_of(parser), inside.port, prefix)) {
    call.exchange.set(field.name, field.value);
  }
  const std::string type(head[beast::http::field::content_type]);
  std::optional<std::uint64_t> length;
  if (const auto known = parser.content_length()) length = *known;
  const unsigned status = head.result_int();
  if (status == 204 || status == 304) {
    co_await call.exchange.respond(status, "", "");
    co_return Result<void>{};
  }
  auto begun = co_await call.exchange.begin(
      status, type.empty() ? std::string_view("application/octet-stream") : type, length);
  if (!begun) co_return begun;
  if (call.request().method == http::Method::Head) co_return co_await call.exchange.end();
  co_return co_await pass_body(call, inside, parser);
}

awaitable<void> outward(Call& call, Inside& inside) {
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    boost::system::error_code ec;
    const std::size_t got = co_await inside.socket.async_read_some(
        asio::buffer(piece), asio::redirect_error(asio::use_awaitable, ec));
    if (ec || got == 0) co_return;
    const auto sent = co_await call.exchange.raw_write(std::span(piece).first(got));
    if (!sent) co_return;
  }
}

awaitable<void> inward(Call& call, Inside& inside) {
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    const auto got = co_await call.exchange.raw_read(piece);
    if (!got || *got == 0) co_return;
    const auto sent = co_await send_inside(inside, std::span(piece).first(*got));
    if (!sent) co_return;
  }
}

awaitable<Result<void>> pass_switch(Call& call, Inside& inside, Parser& parser) {
  using namespace asio::experimental::awaitable_operators;
  for (const auto& field : switch_fields(fields_of(parser), call.request())) {
    call.exchange.set(field.name, field.value);
  }
  call.exchange.close_after();
  auto begun = co_await call.exchange.begin(101, "", std::nullopt);
  if (!begun) co_return begun;
  const auto rest = inside.buffer.data();  // frames that came with the head
  if (rest.size() > 0) {
    const std::span bytes(static_cast<const std::byte*>(rest.data()), rest.size());
    if (auto sent = co_await call.exchange.raw_write(bytes); !sent) co_return sent;
  }
  [[maybe_unused]] const auto first = co_await (outward(call, inside) || inward(call, inside));
  co_return Result<void>{};
}

awaitable<Result<Inside>> connect(Call& call) {
  const auto port = whole_number("port", call.match.part, 1, 65535);
  if (!port) co_return std::unexpected(port.error());
  const auto number = static_cast<std::uint16_t>(**port);
  auto fd = co_await call.fleet().connect_port(call.caller, call.id(), number);
  if (!fd) co_return std::unexpected(fd.error());
  Tcp::socket socket(co_await asio::this_coro::executor);
  boost::system::error_code ec;
  socket.assign(Tcp::v4(), fd->get(), ec);
  if (ec) co_return failure(Errc::Internal, "assign a socket inside: " + ec.message());
  (void)fd->release();
  Inside inside{std::move(socket), beast::flat_buffer{kHeadBytesMax + kPieceBytes}, number};
  co_return inside;
}

}  // namespace

awaitable<Result<void>> proxy_port(Call& call) {
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  const bool websocket = call.request().wants_websocket;
  auto inside = co_await connect(call);
  if (!inside) co_return std::unexpected(inside.error());
  const Upstream upstream{inside->port, call.match.raw_tail, websocket};
  auto head = upstream_head(call.request(), upstream);
  if (!head) co_return std::unexpected(head.error());
  auto sent = co_await send_text(*inside, std::move(*head));
  if (!sent) co_return sent;
  if (!websocket) {
    // A program may answer before it has read everything; then the write fails and the answer
    // counts. What went wrong with the client's own body is told to him.
    auto poured = co_await send_body(call, *inside);
    if (!poured && poured.error().code != Errc::Protocol) co_return poured;
  }
  auto parser = co_await answer_head(call, *inside);
  if (!parser) co_return std::unexpected(parser.error());
  const bool switched = (*parser)->get().result_int() == 101;
  if (switched && websocket) co_return co_await pass_switch(call, *inside, **parser);
  if (switched) co_return silent(inside->port, "switched protocols without being asked");
  co_return co_await pass_answer(call, *inside, **parser);
}

}  // namespace caisson::rest
