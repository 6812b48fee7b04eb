// doors/rest/byte_stream.h — bytes of control as an answer whose length nobody knows yet.
#pragma once

#include <string>
#include <string_view>

#include "doors/rest/call.h"

namespace caisson::rest {

// The first piece is read before the status is sent: what is not there is a 404 then. `name` is
// what a browser would save it as, with `ending`.
awaitable<Result<void>> stream_out(Call& call, control::ByteReader& bytes,
                                   std::string_view content_type, std::string name,
                                   std::string_view ending);

}  // namespace caisson::rest
