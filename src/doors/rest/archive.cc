// Folders as tar archives, out and in. What is in them is never looked at here.
#include <algorithm>

#include "doors/rest/handlers.h"
#include "doors/rest/range.h"
#include "doors/rest/text.h"
#include "doors/rest/upload.h"

namespace caisson::rest {

namespace json = boost::json;

awaitable<Result<control::ByteWriter::Written>> pour(Call& call, control::ByteWriter& writer,
                                                     std::size_t way_bytes) {
  // A small upload needs no more than it is long.
  const std::uint64_t length = call.request().content_length.value_or(kUploadPieceBytes);
  const std::size_t bytes = std::clamp<std::uint64_t>(length, 1, kUploadPieceBytes);
  if (auto room = co_await call.hold().resize(bytes + way_bytes); !room) {
    co_return std::unexpected(room.error());
  }
  std::vector<std::byte> piece(bytes);
  for (;;) {
    const auto got = co_await call.exchange.read_some(piece);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) break;
    const auto taken = co_await writer.write(std::span(piece).first(*got));
    if (!taken) co_return std::unexpected(taken.error());
  }
  co_return co_await writer.finish();
}

awaitable<Result<void>> download_archive(Call& call) {
  const auto path = folder_path(call);
  if (!path) co_return std::unexpected(path.error());
  if (auto room = co_await call.hold().resize(kTransferBytes); !room) co_return room;
  auto bytes = co_await call.fleet().tar_out(call.caller, call.id(), *path);
  if (!bytes) co_return std::unexpected(bytes.error());
  // The first piece before the status: a folder that is not there is a 404 then.
  auto piece = co_await (*bytes)->next();
  if (!piece) co_return std::unexpected(piece.error());
  call.exchange.set("Content-Disposition", disposition(*path, ".tar"));
  auto begun = co_await call.exchange.begin(200, "application/x-tar", std::nullopt);
  if (!begun) co_return begun;
  while (!piece->empty()) {
    if (auto sent = co_await call.exchange.write(*piece); !sent) co_return sent;
    piece = co_await (*bytes)->next();
    if (!piece) co_return std::unexpected(piece.error());
  }
  co_return co_await call.exchange.end();
}

awaitable<Result<void>> upload_archive(Call& call) {
  const auto path = folder_path(call);
  if (!path) co_return std::unexpected(path.error());
  auto writer = co_await call.fleet().tar_in(call.caller, call.id(), *path);
  if (!writer) co_return std::unexpected(writer.error());
  const auto written = co_await pour(call, **writer, 0);
  if (!written) co_return std::unexpected(written.error());
  json::object body;
  body["path"] = valid_utf8(*path);
  body["bytes"] = written->bytes;
  body["entries"] = written->entries;
  co_return co_await answer(call, 200, body);
}

}  // namespace caisson::rest
