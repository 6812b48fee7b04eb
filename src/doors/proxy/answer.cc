#include "doors/proxy/answer.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace caisson::proxy {

namespace asio = boost::asio;
namespace beast = boost::beast;

namespace {

using Parser = beast::http::response_parser<beast::http::empty_body>;
using Bytes = std::span<const std::byte>;

// Heads are small: this holds all but a few, and the others make it larger.
constexpr std::size_t kHeadRoom = 4096;

struct Received {
  std::vector<char> bytes = std::vector<char>(kHeadRoom);
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::string_view left() const noexcept {
    return {bytes.data() + begin, end - begin};
  }
};

// False when it is no HTTP, or longer than a head may be.
bool parse(Parser& parser, Received& received) {
  boost::system::error_code ec;
  const auto left = received.left();
  received.begin += parser.put(asio::const_buffer(left.data(), left.size()), ec);
  return !ec || ec == beast::http::error::need_more;
}

// The parser takes field by field, so how long all of them are together is counted here.
awaitable<Result<void>> read_one(Inside& inside, Received& received, Parser& parser) {
  const std::size_t start = received.begin;
  for (;;) {
    if (!received.left().empty() && !parse(parser, received)) {
      co_return inside.wrong("sent no HTTP answer");
    }
    const std::size_t size = (parser.is_header_done() ? received.begin : received.end) - start;
    if (size > kHeadBytesMax || received.end >= kHeadBytesMax + kHeadRoom) {
      co_return inside.wrong("sent a head that is too long");
    }
    if (parser.is_header_done()) co_return Result<void>{};
    if (received.end == received.bytes.size()) {
      received.bytes.resize(std::min(received.bytes.size() * 2, kHeadBytesMax + kHeadRoom));
    }
    const auto room = std::as_writable_bytes(std::span(received.bytes)).subspan(received.end);
    const auto got = co_await inside.read_some(room);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) co_return inside.wrong("sent no HTTP answer");
    received.end += *got;
  }
}

// A coding that we did not ask for and that is not undone here would reach the client as content.
bool is_coded(const Parser& parser) {
  const auto& head = parser.get();
  const auto coding = head[beast::http::field::transfer_encoding];
  return head.count(beast::http::field::transfer_encoding) > 1 ||
         (!coding.empty() && !http::same_name(coding, "chunked"));
}

bool is_crowded(const Parser& parser) {
  std::size_t fields = 0;
  std::size_t connection = 0;
  for (const auto& field : parser.get()) {
    ++fields;
    if (field.name() == beast::http::field::connection) connection += field.value().size();
  }
  return fields > kFieldsMax || connection > kConnectionBytesMax;
}

AnswerHead describe(const Parser& parser, bool to_head) {
  AnswerHead head;
  head.status = parser.get().result_int();
  for (const auto& field : parser.get()) {
    head.fields.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  head.content_type = std::string(parser.get()[beast::http::field::content_type]);
  if (const auto known = parser.content_length()) head.length = *known;
  if (to_head || head.status == 101 || head.status == 204 || head.status == 304) return head;
  if (parser.chunked()) {
    head.body = AnswerHead::Body::Chunked;
    head.length.reset();
  } else {
    head.body = head.length ? AnswerHead::Body::Length : AnswerHead::Body::ToClose;
  }
  return head;
}

}  // namespace

awaitable<Result<AnswerHead>> read_answer_head(Inside& inside, bool to_head) {
  Received received;
  for (int i = 0; i < kInformationalMax; ++i) {
    Parser parser;
    parser.header_limit(kHeadBytesMax);
    parser.body_limit(boost::none);  // it is streamed, and the client may leave
    parser.skip(true);               // only the head is for this parser
    auto read = co_await read_one(inside, received, parser);
    if (!read) co_return std::unexpected(read.error());
    const unsigned status = parser.get().result_int();
    if (status >= 600 || status < 100) co_return inside.wrong("sent an unknown status");
    if (status != 101 && status < 200) continue;
    if (is_crowded(parser)) co_return inside.wrong("sent a head of too many fields");
    if (is_coded(parser)) co_return inside.wrong("sent its answer in an unknown coding");
    inside.unread(received.left());
    co_return describe(parser, to_head);
  }
  co_return inside.wrong("sent too many interim answers");
}

std::unexpected<Error> AnswerBody::broken() const {
  return inside_.wrong("broke off in the middle of its answer");
}

// A read that fills all there is will be followed by more: the next one gets more room.
awaitable<Result<std::size_t>> AnswerBody::read_into(std::span<std::byte> room) {
  const auto got = co_await inside_.read_some(room);
  if (!got) co_return broken();
  if (*got == size_) size_ = std::min(size_ * 2, kPieceBytesMax);
  co_return *got;
}

awaitable<Result<Bytes>> AnswerBody::next() {
  if (kind_ == AnswerHead::Body::None) co_return Bytes();
  if (kind_ == AnswerHead::Body::Chunked) co_return co_await next_chunk();
  const bool sized = kind_ == AnswerHead::Body::Length;
  if (sized && left_ == 0) co_return Bytes();
  if (piece_.size() != size_) piece_ = std::vector<std::byte>(size_);
  const std::uint64_t want = sized ? std::min<std::uint64_t>(size_, left_) : size_;
  const auto got = co_await read_into(std::span(piece_).first(static_cast<std::size_t>(want)));
  if (!got) co_return std::unexpected(got.error());
  if (sized && *got == 0) co_return broken();
  if (sized) left_ -= *got;
  co_return Bytes(piece_).first(*got);
}

awaitable<Result<Bytes>> AnswerBody::next_chunk() {
  if (piece_.size() != size_) piece_ = std::vector<std::byte>(size_);
  while (!chunks_.done()) {
    if (raw_begin_ == raw_end_) {
      if (raw_.size() != size_) raw_ = std::vector<std::byte>(size_);
      const auto got = co_await read_into(raw_);
      if (!got) co_return std::unexpected(got.error());
      if (*got == 0) co_return broken();
      raw_begin_ = 0;
      raw_end_ = *got;
    }
    const std::string_view coded(reinterpret_cast<const char*>(raw_.data()) + raw_begin_,
                                 raw_end_ - raw_begin_);
    const auto step = chunks_.decode(coded, piece_);
    if (!step) co_return inside_.wrong("sent a malformed chunk");
    raw_begin_ += step->consumed;
    if (step->produced > 0) co_return Bytes(piece_).first(step->produced);
  }
  co_return Bytes();
}

}  // namespace caisson::proxy
