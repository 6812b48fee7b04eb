// doors/rest/upload.h — a request's body to where it belongs, piece by piece.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "doors/rest/call.h"

namespace caisson::rest {

inline constexpr std::size_t kUploadPieceBytes = 256UL * 1024;
// A longer body is worth a way of its own into the sandbox, and so is one of unknown length.
inline constexpr std::size_t kBulkBytesMin = 128UL * 1024;
// What lies on that way at most (engine::kUploadBytes).
inline constexpr std::size_t kBulkWayBytes = 1024UL * 1024;

[[nodiscard]] inline bool is_bulk(const http::Request& request) {
  return request.has_body && request.content_length.value_or(kBulkBytesMin) >= kBulkBytesMin;
}

// All of the body, piece by piece, at the writer's pace. `way_bytes` may lie between here and where
// it goes; they are held besides.
template <class Writer>
awaitable<Result<void>> pour_body(Call& call, Writer& writer, std::size_t way_bytes) {
  // A small upload needs no more than it is long.
  const std::uint64_t length = call.request().content_length.value_or(kUploadPieceBytes);
  const std::size_t bytes = std::clamp<std::uint64_t>(length, 1, kUploadPieceBytes);
  if (auto room = co_await call.hold().resize(bytes + way_bytes); !room) co_return room;
  std::vector<std::byte> piece(bytes);
  for (;;) {
    const auto got = co_await call.exchange.read_some(piece);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) co_return Result<void>{};
    auto taken = co_await writer.write(std::span(piece).first(*got));
    if (!taken) co_return taken;
  }
}

// All of the body, then finish(). A body that stops early leaves no trace inside.
awaitable<Result<control::ByteWriter::Written>> pour(Call& call, control::ByteWriter& writer,
                                                     std::size_t way_bytes);

}  // namespace caisson::rest
