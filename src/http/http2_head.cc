#include "http/http2_head.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace caisson::http {
namespace {

std::uint8_t* bytes_of(std::string_view text) noexcept {
  // nghttp2 copies and does not write.
  return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
}

bool is_for_http1(std::string_view name) noexcept {
  return name == "connection" || name == "upgrade" || name == "keep-alive" ||
         name == "proxy-connection" || name == "transfer-encoding" || name == "te";
}

template <std::size_t N>
std::string_view digits_of(std::array<char, N>& room, std::uint64_t number) noexcept {
  const auto end = std::to_chars(room.data(), room.data() + room.size(), number).ptr;
  return {room.data(), static_cast<std::size_t>(end - room.data())};
}

}  // namespace

void FieldBlock::add(std::string_view name, std::string_view value, nghttp2_nv_flag flag) {
  list_.push_back(nghttp2_nv{bytes_of(name), bytes_of(value), name.size(), value.size(),
                             static_cast<std::uint8_t>(flag)});
}

void FieldBlock::add_all(std::span<const Field> fields) {
  for (const Field& field : fields) {
    std::string name = field.name;
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (is_for_http1(name)) continue;
    add(names_.emplace_back(std::move(name)), field.value);
  }
}

int submit_head(nghttp2_session* session, std::int32_t stream, const AnswerHead& head, bool last) {
  std::array<char, 8> status{};
  std::array<char, 24> length{};
  FieldBlock block;
  block.add(":status", digits_of(status, head.status));
  block.add("server", "caisson");
  block.add("x-content-type-options", "nosniff");
  block.add("date", head.date);
  // Different each time: it would only push what repeats out of the peer's table.
  block.add("x-request-id", head.request_id, NGHTTP2_NV_FLAG_NO_INDEX);
  if (!head.content_type.empty()) block.add("content-type", head.content_type);
  if (head.length) block.add("content-length", digits_of(length, *head.length));
  block.add_all(head.fields);
  block.add_all(head.trailers);
  return nghttp2_submit_headers(session, last ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE, stream,
                                nullptr, block.list().data(), block.list().size(), nullptr);
}

}  // namespace caisson::http
