#include "doors/rest/byte_stream.h"

#include "doors/rest/range.h"

namespace caisson::rest {

awaitable<Result<void>> stream_out(Call& call, control::ByteReader& bytes,
                                   std::string_view content_type, std::string name,
                                   std::string_view ending) {
  auto piece = co_await bytes.next();
  if (!piece) co_return std::unexpected(piece.error());
  call.exchange.set("Content-Disposition", disposition(name, ending));
  auto begun = co_await call.exchange.begin(200, content_type, std::nullopt);
  if (!begun) co_return begun;
  while (!piece->empty()) {
    if (auto sent = co_await call.exchange.write(*piece); !sent) co_return sent;
    piece = co_await bytes.next();
    if (!piece) co_return std::unexpected(piece.error());
  }
  co_return co_await call.exchange.end();
}

}  // namespace caisson::rest
