// The answer of an HTTP/2 stream: what the handler says becomes frames of the session.
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "http/connection.h"
#include "http/http2_connection.h"
#include "http/http2_head.h"
#include "http/http2_stream.h"

namespace caisson::http {

namespace asio = boost::asio;

namespace {

std::unexpected<Error> peer_left() {
  return failure(Errc::Gone, "the client has left or reads nothing");
}

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The session asks what there is to send; the bytes themselves are copied when the frame is made.
ssize_t read_offered(nghttp2_session* /*session*/, std::int32_t /*id*/, std::uint8_t* /*out*/,
                     std::size_t length, std::uint32_t* flags, nghttp2_data_source* source,
                     void* /*user*/) {
  const auto* stream = static_cast<const Http2Stream*>(source->ptr);
  if (stream->gone()) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  const std::size_t left = stream->offered().size();
  if (left <= length) *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (left > 0) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  return static_cast<ssize_t>(std::min(left, length));
}

}  // namespace

// The caller's bytes, shown to the session as long as write() runs. Whoever leaves before all was
// taken has left half of a message on the wire, and only a reset tells the peer.
class Http2Stream::Offer {
 public:
  Offer(Http2Stream& stream, std::span<const std::byte> bytes) noexcept : stream_(stream) {
    stream_.offered_ = bytes;
    stream_.shut_ticks_ = 0;
    stream_.taken_slowly_ = 0;
  }
  ~Offer() {
    if (std::exchange(stream_.offered_, {}).empty()) return;
    stream_.reset(NGHTTP2_CANCEL);
  }
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;
  Offer(Offer&&) = delete;
  Offer& operator=(Offer&&) = delete;

 private:
  Http2Stream& stream_;
};

void Http2Stream::took(std::size_t bytes) {
  offered_ = offered_.subspan(bytes);
  taken_slowly_ += bytes;
  // A byte now and then is no progress.
  if (offered_.empty() || taken_slowly_ >= kProgressBytesMin) {
    shut_ticks_ = 0;
    taken_slowly_ = 0;
  }
  if (offered_.empty()) writable_.cancel();
}

void Http2Stream::set(std::string_view name, std::string_view value) {
  put_answer_field(fields_, name, value);
}

void Http2Stream::set_trailer(std::string_view name, std::string_view value) {
  put_answer_field(trailers_, name, value);
}

// With a pending "Expect: 100-continue".
void Http2Stream::send_continue() {
  continue_due_ = false;
  if (gone_ || begun() || !body_.empty()) return;
  FieldBlock block;
  block.add(":status", "100");
  (void)nghttp2_submit_headers(connection_->session(), NGHTTP2_FLAG_NONE, id_, nullptr,
                               block.list().data(), block.list().size(), nullptr);
  connection_->kick();
}

bool Http2Stream::send_head(unsigned status, std::string_view content_type,
                            std::optional<std::uint64_t> length, Last last) {
  status_ = status;
  if (gone_) return false;
  AnswerHead head;
  head.status = status;
  head.content_type = is_field_value(content_type) ? content_type : std::string_view();
  head.date = connection_->core().date.now();
  head.request_id = request_.id;
  head.length = length;
  head.fields = fields_;
  if (last == Last::Yes) head.trailers = trailers_;
  if (submit_head(connection_->session(), id_, head, last == Last::Yes) != 0) {
    reset(NGHTTP2_INTERNAL_ERROR);
    return false;
  }
  connection_->pump();
  connection_->kick();
  return true;
}

bool Http2Stream::send_trailers() {
  if (gone_) return false;
  FieldBlock block;
  block.add_all(trailers_);
  const int failed =
      nghttp2_submit_trailer(connection_->session(), id_, block.list().data(), block.list().size());
  if (failed != 0) {
    reset(NGHTTP2_INTERNAL_ERROR);
    return false;
  }
  connection_->pump();
  connection_->kick();
  return true;
}

awaitable<Result<void>> Http2Stream::send_body(std::span<const std::byte> bytes, Last last) {
  if (gone_) co_return peer_left();
  const Offer offer(*this, bytes);
  const nghttp2_data_provider provider{{.ptr = this}, read_offered};
  const auto flags = last == Last::Yes ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE;
  if (nghttp2_submit_data(connection_->session(), static_cast<std::uint8_t>(flags), id_,
                          &provider) != 0) {
    co_return peer_left();
  }
  connection_->pump();
  connection_->kick();
  while (!offered_.empty() && !gone_) {
    if (!co_await wait(writable_)) break;
  }
  if (offered_.empty()) co_return Result<void>();
  if (write_late_) co_return failure(Errc::TimedOut, "the client's window stays shut");
  co_return peer_left();
}

// One fast stream must not keep the thread: after a burst the others have their turn.
awaitable<void> Http2Stream::breathe(std::size_t bytes) {
  burst_ += bytes;
  if (burst_ < kBurstBytesMax) co_return;
  burst_ = 0;
  co_await asio::post(writable_.get_executor(), asio::use_awaitable);
}

awaitable<void> Http2Stream::respond(unsigned status, std::string_view content_type,
                                     std::string body) {
  if (begun() || status < 200) {  // a bug of ours
    if (!begun()) status_ = status;
    reset(NGHTTP2_INTERNAL_ERROR);
    co_return;
  }
  const bool bodiless = status == 204 || status == 304;
  no_body_ = bodiless || request_.method == Method::Head;
  ended_ = true;
  read_no_more();
  const bool alone = no_body_ || body.empty();
  std::optional<std::uint64_t> length = body.size();
  if (bodiless || (alone && !trailers_.empty())) length.reset();
  if (!send_head(status, bodiless ? std::string_view() : content_type, length,
                 alone ? Last::Yes : Last::No) ||
      alone) {
    co_return;
  }
  const auto sent = co_await send_body(bytes_of(body), trailers_.empty() ? Last::Yes : Last::No);
  if (sent && !trailers_.empty()) (void)send_trailers();
}

awaitable<Result<void>> Http2Stream::begin(unsigned status, std::string_view content_type,
                                           std::optional<std::uint64_t> length) {
  if (begun()) co_return failure(Errc::Internal, "a second answer to one request");
  if (status < 200) {
    co_return failure(Errc::Unsupported, "switching protocols needs HTTP/1.1");
  }
  const bool bodiless = status == 204 || status == 304;
  no_body_ = bodiless || request_.method == Method::Head;
  answer_left_ = length;
  const bool sent = send_head(status, bodiless ? std::string_view() : content_type,
                              bodiless ? std::nullopt : length, no_body_ ? Last::Yes : Last::No);
  if (!sent) co_return peer_left();
  co_return Result<void>();
}

awaitable<Result<void>> Http2Stream::write(std::span<const std::byte> bytes) {
  if (!begun() || ended_) co_return failure(Errc::Internal, "write() outside of an answer");
  if (gone_) co_return peer_left();
  if (bytes.empty() || no_body_) co_return Result<void>();
  if (answer_left_) {
    if (bytes.size() > *answer_left_) {
      reset(NGHTTP2_INTERNAL_ERROR);
      co_return failure(Errc::Internal, "the answer is longer than it said");
    }
    *answer_left_ -= bytes.size();
  }
  auto sent = co_await send_body(bytes, Last::No);
  if (sent) co_await breathe(bytes.size());
  co_return sent;
}

awaitable<Result<void>> Http2Stream::end() {
  if (!begun() || ended_) co_return failure(Errc::Internal, "end() outside of an answer");
  ended_ = true;
  shut_ticks_ = 0;
  read_no_more();
  if (gone_) co_return peer_left();
  if (no_body_) co_return Result<void>();
  if (answer_left_.value_or(0) > 0) {
    reset(NGHTTP2_INTERNAL_ERROR);
    co_return failure(Errc::Internal, "the answer is shorter than it said");
  }
  if (trailers_.empty()) {
    const std::span<const std::byte> nothing;
    co_return co_await send_body(nothing, Last::Yes);
  }
  if (!send_trailers()) co_return peer_left();
  co_return Result<void>();
}

// After the handler: an answer that it left out, or left unfinished.
awaitable<void> Http2Stream::answer_failure(bool thrown) {
  if (begun()) {
    if (!ended_) reset(NGHTTP2_INTERNAL_ERROR);
    co_return;
  }
  fields_.clear();
  trailers_.clear();
  const Error error{Errc::Internal,
                    thrown ? "the request failed unexpectedly" : "the request was not answered"};
  std::string body = connection_->core().error_body(500, error, request_.id);
  co_await respond(500, "application/json", std::move(body));
}

}  // namespace caisson::http
