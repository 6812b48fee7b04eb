// http/http2_head.h — the fields of an answer in the form that nghttp2 takes.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/field.h"

namespace caisson::http {

// Holds what its list points to.
class FieldBlock {
 public:
  // `name` is in lower case, and both stay where they are.
  void add(std::string_view name, std::string_view value,
           nghttp2_nv_flag flag = NGHTTP2_NV_FLAG_NONE);
  // Names in lower case; fields that speak about an HTTP/1.1 connection are dropped.
  void add_all(std::span<const Field> fields);
  [[nodiscard]] std::span<const nghttp2_nv> list() const noexcept { return list_; }

 private:
  std::deque<std::string> names_;
  std::vector<nghttp2_nv> list_;
};

struct AnswerHead {
  unsigned status = 200;
  std::string_view content_type;
  std::string_view date;
  std::string_view request_id;
  std::optional<std::uint64_t> length;
  std::span<const Field> fields;
  std::span<const Field> trailers;  // of an answer without a body
};

// Zero, or nghttp2's error.
[[nodiscard]] int submit_head(nghttp2_session* session, std::int32_t stream, const AnswerHead& head,
                              bool last);

}  // namespace caisson::http
