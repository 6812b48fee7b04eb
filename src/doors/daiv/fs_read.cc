// read: a window of lines of a text, or all of a small binary file.
#include <fmt/format.h>

#include <algorithm>

#include "base/base64.h"
#include "doors/daiv/fs.h"
#include "doors/daiv/python_text.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr std::size_t kReadBytesMax = 512'000;             // of an answer
constexpr std::uint64_t kTextFileBytesMax = 64ULL << 20U;  // looked through for its lines
constexpr std::size_t kHeldBytes = 4 * kReadBytesMax;      // about what it takes in memory
constexpr std::string_view kMarker =
    "\n\n[Output truncated: exceeded the 512000-byte read limit. Continue with a larger offset or "
    "smaller limit to read the rest.]";
constexpr std::string_view kEmpty = "System reminder: File exists but has empty contents";

struct ReadAnswer {
  json::value content = nullptr;
  json::value encoding = nullptr;
  json::value total_lines = nullptr;
  json::value end_line = nullptr;
  bool truncated = false;
  std::optional<FsError> error;
};

struct ReadWish {
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t limit = 0;
};

ReadAnswer failed(std::string_view code, std::string message) {
  ReadAnswer out;
  out.error = FsError{code, std::move(message)};
  return out;
}

ReadAnswer binary(std::string_view bytes, bool whole) {
  if (!whole) return failed(kTooLarge, "Binary file exceeds maximum preview size of 512000 bytes");
  ReadAnswer out;
  out.content = to_base64(bytes);
  out.encoding = "base64";
  return out;
}

ReadAnswer text(const LineWindow& window, const ReadWish& wish) {
  if (wish.offset > 0 && wish.offset >= window.lines())
    return failed(kInvalidOffset, fmt::format("Line offset {} exceeds file length ({} lines)",
                                              wish.offset, window.lines()));
  ReadAnswer out;
  out.encoding = "utf-8";
  out.total_lines = window.lines();
  if (!window.overflowed()) {
    out.content = window.content();
    out.end_line = wish.offset + window.kept_lines();
    return out;
  }
  const std::string_view kept = cut_utf8(window.content(), kReadBytesMax - kMarker.size());
  out.content = std::string(kept) + std::string(kMarker);
  out.end_line = wish.offset + static_cast<std::uint64_t>(std::ranges::count(kept, '\n'));
  out.truncated = true;
  return out;
}

awaitable<Result<ReadAnswer>> read_bytes(control::Download download, ReadWish wish) {
  LineWindow window(wish.offset, wish.limit, kReadBytesMax);
  Utf8Check check;
  std::string raw;  // its beginning, should it be no text
  std::uint64_t size = 0;
  for (;;) {
    auto piece = co_await download.bytes->next();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) break;
    const std::string_view bytes(reinterpret_cast<const char*>(piece->data()), piece->size());
    size += bytes.size();
    if (size > kTextFileBytesMax)
      co_return failed(kTooLarge,
                       fmt::format("File exceeds maximum size of {} bytes", kTextFileBytesMax));
    if (raw.size() <= kReadBytesMax) raw += bytes.substr(0, kReadBytesMax + 1 - raw.size());
    if (check.feed(bytes)) {
      window.feed(bytes);
    } else if (size > kReadBytesMax) {
      break;
    }
  }
  if (!check.good()) co_return binary(raw, size <= kReadBytesMax);
  if (size == 0) {
    ReadAnswer out;
    out.content = kEmpty;
    out.encoding = "utf-8";
    co_return out;
  }
  window.finish();
  co_return text(window, wish);
}

awaitable<Result<ReadAnswer>> read(Call& call, ReadWish wish) {
  const auto wrong = [&](const Error& error) -> Result<ReadAnswer> {
    if (is_session_trouble(error)) return std::unexpected(error);
    const FsError fs = fs_error(error, wish.path, "No such file");
    return failed(fs.code, fs.message);
  };
  auto entry = co_await call.fleet().stat(call.caller, call.id(), wish.path, true);
  if (!entry) co_return wrong(entry.error());
  if (entry->entry.type == wire::EntryType::Folder)
    co_return failed(kIsADirectory,
                     fmt::format("Is a directory: {} (use fs/ls to list it)", wish.path));
  if (entry->entry.type != wire::EntryType::File)
    co_return failed(kNotFound, "No such file: " + wish.path);
  auto download = co_await call.fleet().read_file(call.caller, call.id(), wish.path, std::nullopt);
  if (!download) co_return wrong(download.error());
  auto out = co_await read_bytes(*std::move(download), wish);
  if (!out) co_return wrong(out.error());
  co_return out;
}

}  // namespace

awaitable<Result<void>> fs_read(Call& call) {
  if (auto good = want_body(call); !good) co_return good;
  Problems problems;
  Fields fields(call.body.value, json::array{"body"}, problems);
  ReadWish wish;
  wish.path = fields.text("path");
  wish.offset = static_cast<std::uint64_t>(fields.integer("offset", 0, Bounds{0, std::nullopt}));
  wish.limit = static_cast<std::uint64_t>(fields.integer("limit", 2000, Bounds{1, std::nullopt}));
  if (!problems.empty()) co_return refuse(call, problems);
  ReadAnswer out;
  out.error = check_path(wish.path, RootItself::Refused);
  if (!out.error) {
    wish.path = without_slashes(std::move(wish.path));
    auto session = co_await enter(call, Wake::Yes);
    if (!session) co_return std::unexpected(session.error());
    if (auto room = co_await call.hold().resize(kHeldBytes); !room) co_return room;
    auto done = co_await read(call, std::move(wish));
    if (!done) co_return std::unexpected(done.error());
    out = *std::move(done);
  }
  json::object body;
  body["content"] = std::move(out.content);
  body["encoding"] = std::move(out.encoding);
  body["total_lines"] = std::move(out.total_lines);
  body["end_line"] = std::move(out.end_line);
  body["truncated"] = out.truncated;
  body["error"] = to_json(out.error);
  co_return co_await answer(call, body);
}

}  // namespace caisson::daiv
