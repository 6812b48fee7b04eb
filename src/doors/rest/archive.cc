// Folders as tar archives, out and in. What is in them is never looked at here.
#include "doors/rest/byte_stream.h"
#include "doors/rest/handlers.h"
#include "doors/rest/text.h"
#include "doors/rest/upload.h"

namespace caisson::rest {

namespace json = boost::json;

awaitable<Result<control::ByteWriter::Written>> pour(Call& call, control::ByteWriter& writer,
                                                     std::size_t way_bytes) {
  if (auto taken = co_await pour_body(call, writer, way_bytes); !taken) {
    co_return std::unexpected(taken.error());
  }
  co_return co_await writer.finish();
}

awaitable<Result<void>> download_archive(Call& call) {
  const auto path = folder_path(call);
  if (!path) co_return std::unexpected(path.error());
  if (auto room = co_await call.hold().resize(kTransferBytes); !room) co_return room;
  auto bytes = co_await call.fleet().tar_out(call.caller, call.id(), *path);
  if (!bytes) co_return std::unexpected(bytes.error());
  co_return co_await stream_out(call, **bytes, "application/x-tar", *path, ".tar");
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
