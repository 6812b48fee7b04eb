// One request and its answer. What waits for the program is raced against the client's leaving and
// against the program's silence, once for a head and once for a body, and not for every piece.
#include <fmt/format.h>

#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "doors/proxy/answer.h"
#include "doors/proxy/head.h"
#include "doors/proxy/inside.h"
#include "doors/proxy/proxy.h"
#include "doors/shared/guard.h"

namespace caisson::proxy {

namespace asio = boost::asio;

namespace {

constexpr seconds kQuietTimeout{900};  // without a byte of an answer that has begun
constexpr std::size_t kBodyPieceBytes = 64UL * 1024;

// Returns when the program has not moved for so long.
awaitable<void> silence(const Inside& inside, seconds limit) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (TimePoint end = inside.moved() + limit; Clock::now() < end; end = inside.moved() + limit) {
    timer.expires_at(end);
    boost::system::error_code ec;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    if (ec) co_return;
  }
}

iovec piece_of(std::string_view text) noexcept {
  return {const_cast<char*>(text.data()), text.size()};
}

awaitable<Result<void>> send_piece(Inside& inside, std::string_view bytes, bool chunked) {
  if (!chunked) co_return co_await inside.write(bytes);
  const std::string size = fmt::format("{:x}\r\n", bytes.size());
  std::array<iovec, 3> pieces{piece_of(size), piece_of(bytes), piece_of("\r\n")};
  const std::span<iovec> all(pieces);
  co_return co_await inside.write(all);
}

// A program may answer before it has read everything: then its answer counts. What goes wrong with
// the client's own body is told to him.
awaitable<Result<void>> send_body(http::Exchange& exchange, Inside& inside) {
  const http::Request& request = exchange.request();
  if (!request.has_body) co_return Result<void>{};
  const bool chunked = !request.content_length;
  std::vector<std::byte> piece(kBodyPieceBytes);
  for (;;) {
    const auto got = co_await exchange.read_some(piece);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0 && !chunked) co_return Result<void>{};
    const std::string_view bytes(reinterpret_cast<const char*>(piece.data()), *got);
    auto sent = co_await send_piece(inside, bytes, chunked);
    if (!sent && sent.error().code == Errc::Protocol) co_return Result<void>{};
    if (!sent || *got == 0) co_return sent;
  }
}

awaitable<Result<AnswerHead>> wait_for_head(http::Exchange& exchange, Inside& inside,
                                            seconds limit) {
  using namespace asio::experimental::awaitable_operators;
  const bool to_head = exchange.request().method == http::Method::Head;
  auto first = co_await (read_answer_head(inside, to_head) || silence(inside, limit) ||
                         exchange.wait_for_hangup());
  if (first.index() == 1) co_return failure(Errc::TimedOut, "the program does not answer");
  if (first.index() == 2) co_return failure(Errc::Gone, "the caller hung up");
  co_return std::move(std::get<0>(first));
}

awaitable<Result<void>> pour(http::Exchange& exchange, AnswerBody& body) {
  for (;;) {
    const auto piece = co_await body.next();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) co_return Result<void>{};
    if (auto sent = co_await exchange.write(*piece); !sent) co_return sent;
  }
}

// A program that sends nothing more must not keep the place of a client who has left.
awaitable<Result<void>> pass_body(http::Exchange& exchange, Inside& inside,
                                  const AnswerHead& head) {
  using namespace asio::experimental::awaitable_operators;
  AnswerBody body(inside, head);
  Result<void> poured;
  if (head.body != AnswerHead::Body::None) {
    const auto first = co_await (pour(exchange, body) || silence(inside, kQuietTimeout) ||
                                 exchange.wait_for_hangup());
    if (first.index() == 1) co_return failure(Errc::TimedOut, "the program sends nothing more");
    if (first.index() == 2) co_return failure(Errc::Gone, "the caller hung up");
    poured = std::get<0>(first);
  }
  if (!poured) co_return poured;
  co_return co_await exchange.end();
}

// A small answer that came in one piece goes on in one piece.
awaitable<Result<void>> pass_whole(http::Exchange& exchange, Inside& inside, const AnswerHead& head,
                                   std::string_view type) {
  AnswerBody body(inside, head);
  std::string whole;
  for (;;) {
    const auto piece = co_await body.next();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) break;
    whole.append(reinterpret_cast<const char*>(piece->data()), piece->size());
  }
  co_await exchange.respond(head.status, type, std::move(whole));
  co_return Result<void>{};
}

awaitable<Result<void>> pass_answer(http::Exchange& exchange, Inside& inside,
                                    const Passage& passage, const AnswerHead& head) {
  for (const auto& field : answer_fields(head.fields, passage)) {
    exchange.set(field.name, field.value);
  }
  if (head.status == 204 || head.status == 304) {
    co_await exchange.respond(head.status, "", "");
    co_return Result<void>{};
  }
  // Under our own origin a page that does not say what it is must not be guessed to be one.
  std::string_view type = head.content_type;
  if (type.empty() && passage.place == Place::UnderPath) type = "application/octet-stream";
  if (head.body == AnswerHead::Body::Length && *head.length <= inside.ahead()) {
    co_return co_await pass_whole(exchange, inside, head, type);
  }
  auto begun = co_await exchange.begin(head.status, type, head.length);
  if (!begun) co_return begun;
  co_return co_await pass_body(exchange, inside, head);
}

awaitable<void> outward(http::Exchange& exchange, Inside& inside) {
  std::vector<std::byte> piece(kPieceBytesMin);
  for (;;) {
    const auto got = co_await inside.read_some(piece);
    if (!got || *got == 0) co_return;
    const auto sent = co_await exchange.raw_write(std::span(piece).first(*got));
    if (!sent) co_return;
  }
}

awaitable<void> inward(http::Exchange& exchange, Inside& inside) {
  std::vector<std::byte> piece(kPieceBytesMin);
  for (;;) {
    const auto got = co_await exchange.raw_read(piece);
    if (!got || *got == 0) co_return;
    const std::string_view bytes(reinterpret_cast<const char*>(piece.data()), *got);
    const auto sent = co_await inside.write(bytes);
    if (!sent) co_return;
  }
}

awaitable<Result<void>> pass_switch(http::Exchange& exchange, Inside& inside,
                                    const Passage& passage, const AnswerHead& head) {
  using namespace asio::experimental::awaitable_operators;
  for (const auto& field : switch_fields(head.fields, exchange.request(), passage)) {
    exchange.set(field.name, field.value);
  }
  exchange.close_after();
  inside.switched();
  auto begun = co_await exchange.begin(101, "", std::nullopt);
  if (!begun) co_return begun;
  [[maybe_unused]] const auto first =
      co_await (outward(exchange, inside) || inward(exchange, inside));
  co_return Result<void>{};
}

}  // namespace

awaitable<Result<void>> pass(http::Exchange& exchange, UniqueFd fd, Passage passage) {
  const http::Request& request = exchange.request();
  if (passage.place == Place::UnderPath && doors::is_for_our_page(request)) {
    co_return failure(Errc::Denied, "no page of this server runs what a sandbox sends");
  }
  auto inside = Inside::take(co_await asio::this_coro::executor, std::move(fd), passage.port);
  if (!inside) co_return std::unexpected(inside.error());
  const auto text = upstream_head(request, passage);
  if (!text) co_return std::unexpected(text.error());
  auto sent = co_await inside->write(*text);
  if (!sent) co_return sent;
  if (!request.wants_websocket) {
    auto poured = co_await send_body(exchange, *inside);
    if (!poured) co_return poured;
  }
  const auto head = co_await wait_for_head(exchange, *inside, passage.answer_timeout);
  if (!head) co_return std::unexpected(head.error());
  if (head->status == 101) {
    if (!request.wants_websocket) {
      co_return inside->wrong("switched protocols without being asked");
    }
    co_return co_await pass_switch(exchange, *inside, passage, *head);
  }
  co_return co_await pass_answer(exchange, *inside, passage, *head);
}

}  // namespace caisson::proxy
