// Files out of a sandbox. Always as an attachment: what a guest wrote is never a page of ours.
#include <fmt/format.h>

#include "doors/rest/handlers.h"
#include "doors/rest/range.h"
#include "guest/protocol/protocol.h"

namespace caisson::rest {

namespace {

struct Wanted {
  std::string path;
  control::FileView file;
  RangeChoice choice;
  bool unchanged = false;  // 304
};

// Looks at the file first: the range and the conditions are about what it is now.
awaitable<Result<Wanted>> look(Call& call) {
  auto path = guest_path("path", call.match.tail);
  if (!path) co_return std::unexpected(path.error());
  auto file = co_await call.fleet().stat(call.caller, call.id(), *path, true);
  if (!file) co_return std::unexpected(file.error());
  if (file->entry.type == wire::EntryType::Folder) {
    co_return bad_field("path", "path is a folder: use list to see what is in it, or archive");
  }
  if (file->entry.type != wire::EntryType::File) {
    co_return bad_field("path", "path is neither a file nor a link to one");
  }
  Wanted wanted{std::move(*path), std::move(*file), {}, false};
  const http::Request& request = call.request();
  wanted.unchanged = request.count("If-None-Match") > 0 &&
                     etag_listed(request.field("If-None-Match"), wanted.file.etag);
  const std::string_view if_range = request.field("If-Range");
  if (request.count("Range") == 1 && (if_range.empty() || if_range == wanted.file.etag)) {
    wanted.choice = choose_range(request.field("Range"), wanted.file.entry.size);
  }
  co_return wanted;
}

void set_fields(Call& call, const Wanted& wanted) {
  if (!wanted.file.etag.empty()) call.exchange.set("ETag", wanted.file.etag);
  call.exchange.set("Accept-Ranges", "bytes");
  call.exchange.set("Cache-Control", "private, no-cache");
  call.exchange.set("Content-Disposition", disposition(wanted.path));
  call.exchange.set("Content-Security-Policy", "default-src 'none'; sandbox");
}

std::unexpected<Error> impossible(Call& call, const Wanted& wanted) {
  call.exchange.set("Content-Range", fmt::format("bytes */{}", wanted.file.entry.size));
  return refuse(call, 416, "RangeNotSatisfiable",
                fmt::format("the file has {} bytes", wanted.file.entry.size));
}

// True when the conditions have answered already.
awaitable<Result<bool>> answer_conditions(Call& call, const Wanted& wanted) {
  if (wanted.unchanged) {
    if (!wanted.file.etag.empty()) call.exchange.set("ETag", wanted.file.etag);
    co_await call.exchange.respond(304, "", "");
    co_return true;
  }
  if (wanted.choice.kind == RangeKind::Impossible) co_return impossible(call, wanted);
  co_return false;
}

awaitable<Result<void>> send(Call& call, control::ByteReader& bytes, std::uint64_t left) {
  while (left > 0) {
    auto piece = co_await bytes.next();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty() || piece->size() > left) {
      co_return failure(Errc::Busy, "the file changed while it was read");
    }
    left -= piece->size();
    if (auto sent = co_await call.exchange.write(*piece); !sent) co_return sent;
  }
  co_return co_await call.exchange.end();
}

}  // namespace

awaitable<Result<void>> head_file(Call& call) {
  auto wanted = co_await look(call);
  if (!wanted) co_return std::unexpected(wanted.error());
  const auto done = co_await answer_conditions(call, *wanted);
  if (!done) co_return std::unexpected(done.error());
  if (*done) co_return Result<void>{};
  set_fields(call, *wanted);
  const bool part = wanted->choice.kind == RangeKind::Part;
  const ByteRange range = wanted->choice.range;
  const std::uint64_t size = wanted->file.entry.size;
  if (part) {
    call.exchange.set("Content-Range",
                      fmt::format("bytes {}-{}/{}", range.first, range.last, size));
  }
  auto begun = co_await call.exchange.begin(part ? 206 : 200, safe_type(wanted->path),
                                            part ? range.last - range.first + 1 : size);
  if (!begun) co_return begun;
  co_return co_await call.exchange.end();
}

awaitable<Result<void>> download_file(Call& call) {
  auto wanted = co_await look(call);
  if (!wanted) co_return std::unexpected(wanted.error());
  const auto done = co_await answer_conditions(call, *wanted);
  if (!done) co_return std::unexpected(done.error());
  if (*done) co_return Result<void>{};
  const bool part = wanted->choice.kind == RangeKind::Part;
  std::optional<control::Range> range;
  if (part) range = control::Range{wanted->choice.range.first, wanted->choice.range.last};
  const std::size_t bytes = std::min<std::uint64_t>(2 * wanted->file.entry.size, kTransferBytes);
  if (auto room = co_await call.hold().resize(bytes); !room) co_return room;
  auto download = co_await call.fleet().read_file(call.caller, call.id(), wanted->path, range);
  if (!download) co_return std::unexpected(download.error());
  wanted->file = std::move(download->file);  // as it was when it was opened
  set_fields(call, *wanted);
  if (part) {
    const std::uint64_t last = download->offset + std::max<std::uint64_t>(download->length, 1) - 1;
    call.exchange.set("Content-Range", fmt::format("bytes {}-{}/{}", download->offset, last,
                                                   wanted->file.entry.size));
  }
  auto begun =
      co_await call.exchange.begin(part ? 206 : 200, safe_type(wanted->path), download->length);
  if (!begun) co_return begun;
  co_return co_await send(call, *download->bytes, download->length);
}

}  // namespace caisson::rest
