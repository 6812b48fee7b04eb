// doors/proxy/answer.h — the answer of a program: its head, parsed and bounded, and the body behind
// it, of which only the framing is looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doors/proxy/inside.h"
#include "http/chunk_decoder.h"
#include "http/field.h"

namespace caisson::proxy {

inline constexpr int kInformationalMax = 8;  // answers of 1xx before the real one
// Each field is compared with the others, and with what Connection names; ten thousand of them
// would keep the thread from everybody else.
inline constexpr std::size_t kFieldsMax = 256;
inline constexpr std::size_t kConnectionBytesMax = 1024;

struct AnswerHead {
  enum class Body : std::uint8_t {
    None,
    Length,
    Chunked,
    ToClose,  // whatever comes until the program closes
  };
  unsigned status = 0;
  std::vector<http::Field> fields;
  std::string content_type;
  std::optional<std::uint64_t> length;  // also of an answer to HEAD
  Body body = Body::None;
};

// The first answer that is none of 1xx, but 101. What follows it in the stream is unread.
awaitable<Result<AnswerHead>> read_answer_head(Inside& inside, bool to_head);

// The body, piece by piece, in memory that grows while reads fill it.
class AnswerBody {
 public:
  AnswerBody(Inside& inside, const AnswerHead& head)
      : inside_(inside), kind_(head.body), left_(head.length.value_or(0)) {}
  // What is there, and not a full piece: an event is passed on when it comes. Empty at the end;
  // valid until the next call. Protocol when the program broke off before.
  awaitable<Result<std::span<const std::byte>>> next();

 private:
  awaitable<Result<std::span<const std::byte>>> next_chunk();
  awaitable<Result<std::size_t>> read_into(std::span<std::byte> room);
  [[nodiscard]] std::unexpected<Error> broken() const;

  Inside& inside_;
  AnswerHead::Body kind_;
  std::uint64_t left_;            // of a length
  std::vector<std::byte> piece_;  // what was given out last
  std::size_t size_ = kPieceBytesMin;
  http::ChunkDecoder chunks_;
  std::vector<std::byte> raw_;  // chunked: what was read, and not decoded from raw_begin_ on
  std::size_t raw_begin_ = 0;
  std::size_t raw_end_ = 0;
};

}  // namespace caisson::proxy
