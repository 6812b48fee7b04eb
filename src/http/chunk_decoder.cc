#include "http/chunk_decoder.h"

#include <algorithm>
#include <cstring>

namespace caisson::http {
namespace {

std::unexpected<Error> bad(const char* what) {
  return bad_field("body", std::string("chunked body: ") + what);
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<void> ChunkDecoder::take_size(char c) {
  constexpr std::size_t kDigitsMax = 15;  // fits 64 bits with room
  if (++line_ > kChunkLineBytesMax) return bad("a size line is too long");
  const int digit = hex_digit(c);
  if (digit >= 0) {
    if (++digits_ > kDigitsMax) return bad("a chunk is too large");
    left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
    return {};
  }
  if (digits_ == 0) return bad("a size is missing");
  if (c == ';') {
    state_ = State::Extension;
  } else if (c == '\r') {
    state_ = State::SizeEnd;
  } else {
    return bad("a size is not hexadecimal");
  }
  return {};
}

Result<void> ChunkDecoder::take_extension(char c) {
  if (++line_ > kChunkLineBytesMax) return bad("a size line is too long");
  if (++extensions_ > kChunkExtensionBytesMax) return bad("too many extensions");
  if (c == '\r') {
    state_ = State::SizeEnd;
  } else if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) {
    return bad("a control character in an extension");
  }
  return {};
}

Result<void> ChunkDecoder::take_trailer(char c) {
  if (++trailer_ > kTrailerBytesMax) return bad("too many trailers");
  switch (state_) {
    case State::TrailerStart:
      if (c == ' ' || c == '\t' || c == '\n') return bad("a trailer is malformed");
      state_ = c == '\r' ? State::LastLf : State::Trailer;
      return {};
    case State::Trailer:
      if (c == '\r') {
        state_ = State::TrailerLf;
      } else if (static_cast<unsigned char>(c) < 0x20 && c != '\t') {
        return bad("a control character in a trailer");
      }
      return {};
    case State::TrailerLf:
      if (c != '\n') return bad("a CR without LF in a trailer");
      state_ = State::TrailerStart;
      return {};
    default:
      if (c != '\n') return bad("a CR without LF at the end");
      state_ = State::Done;
      return {};
  }
}

Result<void> ChunkDecoder::take(char c) {
  switch (state_) {
    case State::Size:
      return take_size(c);
    case State::Extension:
      return take_extension(c);
    case State::SizeEnd:
      if (c != '\n') return bad("a CR without LF behind a size");
      state_ = left_ > 0 ? State::Data : State::TrailerStart;
      return {};
    case State::DataCr:
      if (c != '\r') return bad("a chunk is longer than its size");
      state_ = State::DataLf;
      return {};
    case State::DataLf:
      if (c != '\n') return bad("a CR without LF behind a chunk");
      state_ = State::Size;
      left_ = digits_ = line_ = 0;
      return {};
    case State::Data:
    case State::Done:
      return {};
    default:
      return take_trailer(c);
  }
}

Result<ChunkDecoder::Step> ChunkDecoder::decode(std::string_view in, std::span<std::byte> out) {
  Step step;
  while (step.consumed < in.size() && state_ != State::Done) {
    if (state_ != State::Data) {
      TRY(take(in[step.consumed]));
      ++step.consumed;
      continue;
    }
    const std::size_t room = std::min(in.size() - step.consumed, out.size() - step.produced);
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, room));
    if (size == 0) break;
    std::memcpy(out.data() + step.produced, in.data() + step.consumed, size);
    step.consumed += size;
    step.produced += size;
    left_ -= size;
    if (left_ == 0) state_ = State::DataCr;
  }
  step.done = state_ == State::Done;
  return step;
}

}  // namespace caisson::http
