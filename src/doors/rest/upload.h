// doors/rest/upload.h — a request's body into a sandbox, piece by piece.
#pragma once

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

// All of the body, then finish(). A body that stops early leaves no trace inside. `way_bytes` may
// lie between here and the sandbox; they are held besides.
awaitable<Result<control::ByteWriter::Written>> pour(Call& call, control::ByteWriter& writer,
                                                     std::size_t way_bytes);

}  // namespace caisson::rest
