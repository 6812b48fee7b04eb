#include "http/http2_stream.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <utility>

#include "http/connection.h"
#include "http/http2_connection.h"

namespace caisson::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr auto kNever = asio::steady_timer::time_point::max();

std::unexpected<Error> peer_left() { return failure(Errc::Gone, "the client has left"); }

}  // namespace

Http2Stream::Http2Stream(std::shared_ptr<Http2Connection> connection, std::int32_t id)
    : connection_(std::move(connection)),
      id_(id),
      stall_left_(connection_->core().limits.stall_seconds),
      readable_(connection_->core().executor, kNever),
      writable_(connection_->core().executor, kNever),
      hung_up_(connection_->core().executor, kNever) {
  request_.peer = connection_->peer();
  connection_->stream_added();
}

Http2Stream::~Http2Stream() {
  drop_body();
  connection_->give_back_head(head_held_);
  connection_->stream_removed();
}

// --- the request

bool Http2Stream::keep_head(std::size_t bytes) {
  if (connection_->hold_head(bytes)) {
    head_held_ += bytes;
    return true;
  }
  refusal_ = Refusal{503, Error{Errc::Exhausted,
                                "head of the request: those of the requests that are under way "
                                "leave no room for it; try again"}};
  return false;
}

bool Http2Stream::add_field(std::string_view name, std::string_view value) {
  constexpr std::size_t kFieldCost = 32;  // as the setting that we announce counts
  const Limits& limits = connection_->core().limits;
  const std::size_t cost = name.size() + value.size() + kFieldCost;
  head_bytes_ += cost;
  if (head_bytes_ > kHeadBombFactor * limits.header_bytes_max) return false;
  if (in_trailers_ || refusal_) return true;
  const bool pseudo = name.starts_with(':');
  if (!pseudo) ++head_fields_;
  if (head_bytes_ > limits.header_bytes_max || head_fields_ > limits.headers_max) {
    refusal_ = Refusal{
        431, Error{Errc::TooLarge, "head of the request: at most " +
                                       std::to_string(limits.header_bytes_max) + " bytes and " +
                                       std::to_string(limits.headers_max) + " fields"}};
    return true;
  }
  if (!keep_head(cost)) return true;
  if (name == ":method") {
    request_.method_text = value;
  } else if (name == ":path") {
    request_.target = value;
  } else if (name == ":authority") {
    authority_ = value;
  } else if (!pseudo) {
    request_.fields.push_back(Field{std::string(name), std::string(value)});
  }
  return true;
}

// Handlers know one name for who is asked.
std::expected<void, Refusal> Http2Stream::place_host() {
  if (authority_.empty()) return {};
  if (request_.count("host") == 0) {
    request_.fields.push_back(Field{"host", std::move(authority_)});
    return {};
  }
  if (same_name(request_.field("host"), authority_)) return {};
  return std::unexpected(
      Refusal{400, Error{Errc::InvalidArgument,
                         "host: differs from :authority; send only one of them", 0, "host"}});
}

void Http2Stream::end_head(bool body_follows) {
  ServerCore& core = connection_->core();
  core.write_id(request_.id);
  body_ended_ = !body_follows;
  if (refusal_) {
    // Nobody will look at it.
    request_.fields = {};
    for (std::string* text : {&request_.method_text, &request_.target, &authority_}) {
      std::string().swap(*text);
    }
    connection_->give_back_head(std::exchange(head_held_, 0));
    return;
  }
  Framing framing;
  auto ok = place_host();
  if (ok) ok = read_parts(core.limits, request_, framing);
  if (!ok) refusal_ = std::move(ok.error());
  request_.has_body = body_follows && request_.content_length.value_or(1) > 0;
  continue_due_ = body_follows && request_.count("expect") > 0;
}

void Http2Stream::add_body(std::string_view bytes) {
  if (gone_ || unread_) {
    connection_->pass_over(id_, bytes.size());
    return;
  }
  if (!connection_->hold_body(bytes.size())) {
    connection_->pass_over(id_, bytes.size());
    reset(NGHTTP2_ENHANCE_YOUR_CALM);
    return;
  }
  if (body_begin_ == body_.size()) {
    body_.clear();
    body_begin_ = 0;
  } else if (body_begin_ > body_.size() / 2) {
    body_.erase(0, std::exchange(body_begin_, 0));
  }
  body_.append(bytes);
  progress_ += bytes.size();
  if (progress_ >= kProgressBytesMin) {
    stall_left_ = connection_->core().limits.stall_seconds;
    progress_ = 0;
  }
  readable_.cancel();
}

void Http2Stream::end_body() {
  body_ended_ = true;
  readable_.cancel();
}

void Http2Stream::drop_body() {
  connection_->give_back(id_, body_.size() - body_begin_);
  std::string().swap(body_);  // an assignment would keep its room
  body_begin_ = 0;
}

// The whole answer is known: what the peer still sends would only lie here until it has read that.
void Http2Stream::read_no_more() {
  unread_ = true;
  drop_body();
}

awaitable<Result<std::size_t>> Http2Stream::read_some(std::span<std::byte> out) {
  if (out.empty()) co_return std::size_t{0};
  if (continue_due_) send_continue();
  for (;;) {
    if (gone_) co_return peer_left();
    const std::size_t have = std::min(out.size(), body_.size() - body_begin_);
    if (have > 0) {
      std::memcpy(out.data(), body_.data() + body_begin_, have);
      body_begin_ += have;
      connection_->give_back(id_, have);
      co_await breathe(have);
      co_return have;
    }
    if (body_ended_ || unread_) co_return std::size_t{0};
    if (read_late_) {
      co_return failure(Errc::TimedOut, "the body of the request did not arrive in time");
    }
    reading_ = true;
    const bool go_on = co_await wait(readable_);
    reading_ = false;
    if (!go_on) co_return failure(Errc::Gone, "cancelled");
  }
}

// --- its life

void Http2Stream::wake() {
  readable_.cancel();
  writable_.cancel();
  hung_up_.cancel();
}

// False: whoever waits was cancelled.
awaitable<bool> Http2Stream::wait(asio::steady_timer& event) {
  error_code ec;
  co_await event.async_wait(asio::redirect_error(asio::use_awaitable, ec));
  burst_ = 0;
  const auto cancelled = (co_await asio::this_coro::cancellation_state).cancelled();
  co_return cancelled == asio::cancellation_type::none;
}

void Http2Stream::abandon() {
  gone_ = true;
  drop_body();
  wake();
}

void Http2Stream::closed() {
  closed_ = true;
  if (answer_sent_ && body_ended_) {
    wake();
  } else {
    abandon();
  }
}

void Http2Stream::reset(std::uint32_t code) {
  if (gone_ || closed_) return;
  (void)nghttp2_submit_rst_stream(connection_->session(), NGHTTP2_FLAG_NONE, id_, code);
  connection_->kick();
  abandon();
}

void Http2Stream::cut() { reset(NGHTTP2_CANCEL); }

// A handler that says nothing is never late: only what the peer owes us is measured.
void Http2Stream::on_tick() {
  if (gone_) return;
  // Once the answer has begun the two are talking, and either may be silent for a while.
  if (reading_ && !begun()) {
    if (stall_left_ == 0) {
      read_late_ = true;
      readable_.cancel();
    } else {
      --stall_left_;
    }
  }
  // The end of an answer needs a window, too, and its handler may have gone already.
  const bool unsent = !offered_.empty() || (ended_ && !answer_sent_);
  if (unsent && !connection_->blocked() &&
      ++shut_ticks_ > connection_->core().limits.stall_seconds) {
    write_late_ = true;
    reset(NGHTTP2_CANCEL);
  }
}

awaitable<void> Http2Stream::wait_for_hangup() {
  while (!gone_ && !closed_) {
    if (!co_await wait(hung_up_)) co_return;
  }
}

awaitable<void> Http2Stream::serve(std::shared_ptr<Http2Stream> self) {
  // Its client may have gone already, and with a server that has ended the handler, too.
  if (self->gone_) co_return;
  ServerCore& core = self->connection_->core();
  if (self->refusal_) {
    ++core.counters.malformed;
    const Refusal& refusal = *self->refusal_;
    std::string body = core.error_body(refusal.status, refusal.error, self->request_.id);
    co_await self->respond(refusal.status, "application/json", std::move(body));
    co_return;
  }
  ++core.counters.requests;
  bool thrown = false;
  try {
    co_await core.handler.handle(*self);
  } catch (...) {  // the one place: a bug in a handler ends its request, not the connection
    thrown = true;
  }
  co_await self->answer_failure(thrown);
}

awaitable<Result<std::unique_ptr<WebSocket>>> Http2Stream::accept_websocket(std::string_view) {
  co_return failure(Errc::Unsupported, "a WebSocket needs HTTP/1.1");
}

awaitable<Result<std::size_t>> Http2Stream::raw_read(std::span<std::byte>) {
  co_return failure(Errc::Unsupported, "switching protocols needs HTTP/1.1");
}

awaitable<Result<void>> Http2Stream::raw_write(std::span<const std::byte>) {
  co_return failure(Errc::Unsupported, "switching protocols needs HTTP/1.1");
}

}  // namespace caisson::http
