// doors/rest/upload.h — a request's body into a sandbox, piece by piece.
#pragma once

#include "doors/rest/call.h"

namespace caisson::rest {

inline constexpr std::size_t kUploadPieceBytes = 256UL * 1024;

// All of the body, then finish(). A body that stops early leaves no trace inside.
awaitable<Result<control::ByteWriter::Written>> pour(Call& call, control::ByteWriter& writer);

}  // namespace caisson::rest
