// http/response_head.h — the head of an answer as bytes, written by hand: it is the same few lines
// each time.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/field.h"

namespace caisson::http {

[[nodiscard]] std::string_view reason_of(unsigned status) noexcept;

// "Sun, 06 Nov 1994 08:49:37 GMT", made once a second and not once an answer.
class DateText {
 public:
  [[nodiscard]] std::string_view now();

 private:
  std::time_t second_ = -1;
  std::string text_;
};

enum class BodyKind : std::uint8_t {
  None,     // 1xx, 204, 304
  Length,   // Content-Length
  Chunked,  // HTTP/1.1 without a length
  ToClose,  // HTTP/1.0 without a length
};

struct ResponseHead {
  unsigned status = 200;
  std::string_view content_type;
  std::string_view date;
  std::string_view request_id;
  std::span<const Field> fields;
  BodyKind kind = BodyKind::Length;
  std::uint64_t length = 0;
  // "close", "keep-alive" or nothing. A 101 says its own, by a field.
  std::string_view connection;
};

// Exchange::set(): drops what is malformed or ours to say; a second value replaces the first.
void put_answer_field(std::vector<Field>& fields, std::string_view name, std::string_view value);

// Appends; `out` keeps its capacity from answer to answer.
void write_head(const ResponseHead& head, std::string& out);

}  // namespace caisson::http
