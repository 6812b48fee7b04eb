// One request and its answer, once both are allowed to be. The body goes up in a coroutine of its
// own, because a host may answer before it has read everything, and "100 Continue" comes in
// between. Both bodies are counted, bounded in memory, and framed anew.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <limits>
#include <span>
#include <utility>

#include "egress/gate/http_relay.h"
#include "http/chunk_decoder.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

constexpr http::Limits kAnswerLimits{.header_bytes_max = kAnswerHeadBytesMax, .headers_max = 200};
constexpr std::size_t kChunkBytes = 16UL * 1024;
constexpr std::string_view kLastChunk = "0\r\n\r\n";
// While the host thinks, the client may leave: so often somebody looks.
constexpr milliseconds kLookInterval{5000};

std::string as_chunk(std::string_view bytes) {
  std::string out = fmt::format("{:x}\r\n", bytes.size());
  out.append(bytes).append("\r\n");
  return out;
}

}  // namespace

asio::awaitable<bool> HttpRelay::send_request(const ProxyTarget& target) {
  std::string head = forward_head(request_, framing_, target, usual_port(), injection_);
  c_.deadline.set(c_.core->times.quiet);
  const bool sent = co_await c_.send_up(head);
  if (!injection_.empty()) wipe(head);
  co_return sent;
}

asio::awaitable<HttpRelay::Turn> HttpRelay::exchange(const Asked& asked, const ProxyTarget& target,
                                                     bool reused) {
  bool sent = co_await send_request(target);
  body_.reset();
  body_bad_ = body_stop_ = false;
  if (sent && request_.has_body) {
    body_ = std::make_shared<Signal>(c_.core->executor);
    asio::co_spawn(c_.core->executor, send_body(body_), asio::detached);
  }
  Result<AnswerHead> head = failure(Errc::Gone, "the host closed the connection");
  if (sent) head = co_await read_answer();
  // A kept connection that the host closed just now: once more, to the address that was judged.
  const bool again = reused && !tunnel_ && !head && head.error().code == Errc::Gone &&
                     !request_.has_body && c_.up_in.empty() && !answered_ && !c_.is_cut();
  if (again) {
    Verdict verdict = c_.admit_again(asked);
    if (verdict.outcome != Outcome::Deny) {
      const auto reached = co_await c_.reach(asked, std::move(verdict));
      if (reached && co_await send_request(target)) head = co_await read_answer();
    }
  }
  Turn turn = Turn::Cut;
  if (head && !c_.is_cut()) {
    AnswerHead whole = std::move(*head);
    turn = co_await pass_answer(std::move(whole));
  }
  const bool body_sent = !body_ || body_->raised();
  if (body_) {
    // Whoever answers before it has read the body does not read the rest.
    body_stop_ = true;
    while (!body_->raised()) {
      c_.client.cancel();
      c_.upstream.cancel();
      co_await asio::post(c_.core->executor, asio::use_awaitable);
    }
  }
  if (c_.is_cut()) co_return Turn::Cut;
  if (head) {
    if (turn == Turn::Next && !body_sent) turn = Turn::Close;
    co_return turn;
  }
  c_.leave();
  if (answered_) co_return Turn::Close;
  OwnAnswer own{502, fmt::format("Proxy error: {}\n", head.error().message)};
  if (head.error().code == Errc::TimedOut) own.status = 504;
  if (body_bad_) own = {400, "the body of the request is not in chunks\n"};
  co_return co_await answer(own);
}

// True: there is something of the host, or its end.
asio::awaitable<bool> HttpRelay::wait_answer() {
  const TimePoint until = Clock::now() + c_.core->times.answer;
  while (c_.upstream.is_open() && !c_.is_cut()) {
    const nanoseconds left = until - Clock::now();
    if (left <= nanoseconds(0)) co_return false;
    // The limit is both coroutines': while a body goes up, only its standing still may end it.
    const bool uploading = body_ && !body_->raised();
    c_.deadline.set(uploading ? nanoseconds(c_.core->times.quiet)
                              : std::min<nanoseconds>(left, kLookInterval));
    const bool ready = co_await c_.upstream.wait_read();
    if (ready) co_return true;
    if (uploading || body_bad_ || c_.is_cut()) co_return false;
    if (c_.client.hung_up()) c_.cut();
  }
  co_return false;
}

// The length of the whole head in up_in.
asio::awaitable<Result<std::size_t>> HttpRelay::read_answer_bytes() {
  http::HeadScanner scanner;
  for (;;) {
    const auto scanned = scanner.scan(c_.up_in, kAnswerLimits);
    if (!scanned) co_return failure(Errc::Protocol, "the host's answer is not HTTP");
    if (*scanned && scanner.skipped() == 0) co_return **scanned;
    if (*scanned) co_return failure(Errc::Protocol, "the host's answer begins with nothing");
    if (c_.up_in.empty() && !co_await wait_answer()) {
      if (c_.is_cut() || body_bad_) co_return failure(Errc::Protocol, "given up");
      co_return failure(Errc::TimedOut, "the host does not answer");
    }
    c_.deadline.set(c_.core->times.answer);
    const Fill filled = co_await c_.fill_up_in();
    if (filled == Fill::More) continue;
    if (c_.deadline.passed()) co_return failure(Errc::TimedOut, "the host does not answer");
    co_return failure(Errc::Gone, "the host closed the connection");
  }
}

asio::awaitable<Result<AnswerHead>> HttpRelay::read_answer() {
  for (int interim = 0; interim <= kInterimAnswersMax; ++interim) {
    const auto size = co_await read_answer_bytes();
    if (!size) co_return std::unexpected(size.error());
    auto head = read_answer_head(std::string_view(c_.up_in).substr(0, *size), request_.method_text);
    c_.up_in.erase(0, *size);
    if (!head) co_return std::unexpected(head.error());
    const unsigned status = head->answer.status;
    if (status >= 200) co_return std::move(*head);
    if (status == 101) {
      if (request_.wants_websocket && !request_.has_body) co_return std::move(*head);
      co_return failure(Errc::Protocol, "the host switches protocols without being asked");
    }
    if (!framing_.http11) continue;  // HTTP/1.0 knows no interim answers
    const std::string bytes = injection_.redactor().scrub(interim_head(*head));
    if (!co_await c_.send_client(bytes)) {
      c_.cut();
      co_return failure(Errc::Protocol, "the client has left");
    }
  }
  co_return failure(Errc::Protocol, "too many interim answers");
}

asio::awaitable<HttpRelay::Turn> HttpRelay::pass_answer(AnswerHead head) {
  answered_ = true;
  c_.deadline.set(c_.core->times.quiet);
  if (head.answer.status == 101) {
    const std::string bytes = injection_.redactor().scrub(interim_head(head));
    if (!co_await c_.send_client(bytes)) co_return Turn::Cut;
    co_await c_.relay();
    co_return Turn::Left;
  }
  using http::BodyKind;
  BodyKind kind = head.framing.kind;
  // What is taken out of a body changes its length.
  const bool scrubbed = !injection_.empty() && kind != BodyKind::None;
  const bool endless = scrubbed || kind == BodyKind::Chunked || kind == BodyKind::ToClose;
  if (endless) kind = framing_.http11 ? BodyKind::Chunked : BodyKind::ToClose;
  const bool upload_done = !body_ || body_->raised();
  bool keep = framing_.keep_alive && kind != BodyKind::ToClose && upload_done;
  if (tunnel_) keep = keep && head.framing.keep;
  const std::string bytes = injection_.redactor().scrub(answer_head(head, kind, keep));
  bool whole = false;
  // A small answer leaves in one piece with its head.
  if (!scrubbed && head.framing.kind == BodyKind::Length &&
      c_.up_in.size() == head.framing.length) {
    const std::string all = bytes + std::exchange(c_.up_in, {});
    whole = co_await c_.send_client(all);
  } else if (co_await c_.send_client(bytes)) {
    whole = scrubbed ? co_await pass_scrubbed(head, kind == BodyKind::Chunked)
                     : co_await pass_body(head, kind == BodyKind::Chunked);
  }
  if (!whole) {
    // What the client has is not all, and it must not take it for that.
    if (!c_.is_cut()) c_.cut();
    co_return Turn::Cut;
  }
  if (!head.framing.keep || !c_.up_in.empty()) c_.leave();
  co_return keep ? Turn::Next : Turn::Close;
}

asio::awaitable<bool> HttpRelay::pass_piece(std::string_view bytes, bool chunked) {
  c_.deadline.set(c_.core->times.quiet);
  if (bytes.empty()) co_return true;
  if (!chunked) co_return co_await c_.send_client(bytes);
  const std::string chunk = as_chunk(bytes);
  co_return co_await c_.send_client(chunk);
}

asio::awaitable<bool> HttpRelay::pass_chunks(bool chunked) {
  http::ChunkDecoder decoder;
  for (;;) {
    std::string plain(kChunkBytes, '\0');
    const auto step = decoder.decode(c_.up_in, std::as_writable_bytes(std::span(plain)));
    if (!step) co_return false;
    c_.up_in.erase(0, step->consumed);
    plain.resize(step->produced);
    if (!co_await pass_piece(plain, chunked)) co_return false;
    if (step->done) break;
    if (step->produced == kChunkBytes) continue;
    std::string().swap(plain);  // it may be long until the next one
    if (co_await c_.fill_up_in() != Fill::More) co_return false;
  }
  co_return !chunked || co_await c_.send_client(kLastChunk);
}

asio::awaitable<bool> HttpRelay::pass_to_end(bool chunked) {
  if (!chunked) {
    const std::string early = std::exchange(c_.up_in, {});
    if (!co_await c_.send_client(early)) co_return false;
    const PumpEnd end =
        co_await c_.pump(Direction::Down, std::numeric_limits<std::uint64_t>::max());
    co_return end == PumpEnd::End;
  }
  for (;;) {
    const std::string piece = std::exchange(c_.up_in, {});
    if (!co_await pass_piece(piece, true)) co_return false;
    const Fill filled = co_await c_.fill_up_in();
    if (filled == Fill::End) break;
    if (filled == Fill::Broken) co_return false;
  }
  co_return co_await c_.send_client(kLastChunk);
}

// Whatever its framing was, piece by piece, with the rule's secrets taken out.
asio::awaitable<bool> HttpRelay::pass_scrubbed(const AnswerHead& head, bool chunked) {
  Redactor::Stream scrub(injection_.redactor());
  http::ChunkDecoder decoder;
  std::uint64_t left = head.framing.length;
  const http::BodyKind kind = head.framing.kind;
  bool done = kind == http::BodyKind::Length && left == 0;
  while (!done) {
    std::string piece = kind == http::BodyKind::Chunked ? std::string(c_.up_in.size(), '\0')
                                                        : std::exchange(c_.up_in, {});
    if (kind == http::BodyKind::Chunked) {
      const auto step = decoder.decode(c_.up_in, std::as_writable_bytes(std::span(piece)));
      if (!step) co_return false;
      c_.up_in.erase(0, step->consumed);
      piece.resize(step->produced);
      done = step->done;
    } else if (kind == http::BodyKind::Length) {
      if (piece.size() > left) c_.up_in = piece.substr(static_cast<std::size_t>(left));
      piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), left)));
      left -= piece.size();
      done = left == 0;
    }
    const std::string clean = scrub.feed(piece);
    if (!co_await pass_piece(clean, chunked)) co_return false;
    if (done) break;
    const Fill filled = co_await c_.fill_up_in();
    if (filled == Fill::Broken) co_return false;
    if (filled == Fill::More) continue;
    if (kind != http::BodyKind::ToClose) co_return false;
    done = true;
  }
  const std::string rest = scrub.finish();
  if (!co_await pass_piece(rest, chunked)) co_return false;
  co_return !chunked || co_await c_.send_client(kLastChunk);
}

asio::awaitable<bool> HttpRelay::pass_body(const AnswerHead& head, bool chunked) {
  switch (head.framing.kind) {
    case http::BodyKind::None:
      co_return true;
    case http::BodyKind::Chunked:
      co_return co_await pass_chunks(chunked);
    case http::BodyKind::ToClose:
      co_return co_await pass_to_end(chunked);
    case http::BodyKind::Length:
      break;
  }
  std::uint64_t left = head.framing.length;
  if (!c_.up_in.empty() && left > 0) {
    const auto have = static_cast<std::size_t>(std::min<std::uint64_t>(left, c_.up_in.size()));
    const std::string early = c_.up_in.substr(0, have);
    c_.up_in.erase(0, have);
    if (!co_await c_.send_client(early)) co_return false;
    left -= have;
  }
  if (left == 0) co_return true;
  const PumpEnd end = co_await c_.pump(Direction::Down, left);
  co_return end == PumpEnd::Limit;
}

asio::awaitable<bool> HttpRelay::send_sized() {
  std::uint64_t left = *request_.content_length;
  const auto have = static_cast<std::size_t>(std::min<std::uint64_t>(left, c_.in.size()));
  if (have > 0) {
    const std::string early = c_.in.substr(0, have);
    c_.in.erase(0, have);
    if (!co_await c_.send_up(early)) co_return false;
    left -= have;
  }
  if (left == 0) co_return true;
  co_return co_await c_.pump(Direction::Up, left) == PumpEnd::Limit;
}

asio::awaitable<bool> HttpRelay::send_chunks() {
  http::ChunkDecoder decoder;
  for (;;) {
    std::string plain(kChunkBytes, '\0');
    const auto step = decoder.decode(c_.in, std::as_writable_bytes(std::span(plain)));
    if (!step) {
      body_bad_ = true;
      co_return false;
    }
    c_.in.erase(0, step->consumed);
    if (step->produced > 0) {
      const std::string chunk = as_chunk(std::string_view(plain).substr(0, step->produced));
      if (!co_await c_.send_up(chunk)) co_return false;
      c_.deadline.set(c_.core->times.quiet);
    }
    if (step->done) break;
    if (step->produced == kChunkBytes) continue;
    if (co_await c_.fill_in() != Fill::More) co_return false;
  }
  co_return co_await c_.send_up(kLastChunk);
}

// `this` is there: exchange() waits for the signal.
asio::awaitable<void> HttpRelay::send_body(std::shared_ptr<Signal> done) {
  bool sent = false;
  try {
    sent = framing_.chunked ? co_await send_chunks() : co_await send_sized();
  } catch (...) {
    c_.cut();  // an empty heap: whoever waits for us must not wait for ever
  }
  if (!sent && !body_stop_ && !c_.is_cut()) {
    if (body_bad_) {
      // The host must never take what it has for a whole request.
      c_.upstream.reset();
    } else if (c_.client.hung_up()) {
      c_.cut();
    }
    // Else the host reads no more, and may have said why.
  }
  done->raise();
}

}  // namespace caisson::egress
