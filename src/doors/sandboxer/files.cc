// Folders and files of a sandbox, as its own user sees them from inside: the guest's kernel
// resolves every path, so none leads out.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cerrno>

#include "doors/sandboxer/file_words.h"
#include "doors/sandboxer/words.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

constexpr std::size_t kEntriesMax = 1000;

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

awaitable<Result<void>> answer_folder(Call& call, const Row& row, FilePlace place) {
  auto found = co_await call.fleet().list_files(call.caller, row.name, place.absolute, false);
  if (!found) co_return file_refusal(call, found.error());
  json::array entries;
  for (const control::FileView& one : *found) {
    if (one.entry.type == wire::EntryType::Link) continue;
    if (entries.size() >= kEntriesMax) break;
    const bool folder = one.entry.type == wire::EntryType::Folder;
    const std::string name = doors::lossy_utf8(one.entry.name);
    std::string path = doors::lossy_utf8(place.shown);
    if (!path.empty() && !path.ends_with('/')) path += '/';
    path += name;
    entries.push_back(json::object{
        {"name", name}, {"is_dir", folder}, {"size", folder ? 0 : one.entry.size}, {"path", path}});
  }
  const json::object body{{"entries", std::move(entries)}};
  co_return co_await answer(call, body);
}

awaitable<Result<void>> answer_file(Call& call, const Row& row, FilePlace place) {
  auto file = co_await call.fleet().read_file(call.caller, row.name, place.absolute, std::nullopt);
  if (!file) co_return file_refusal(call, file.error());
  const std::string name = base_name(place.absolute);
  call.exchange.set("Content-Disposition", attachment(name));
  // A page of the sandbox's must not become one of ours.
  call.exchange.set("Content-Security-Policy", "sandbox");
  auto begun = co_await call.exchange.begin(200, content_type(name), file->length);
  if (!begun) co_return begun;
  for (;;) {
    const auto piece = co_await file->bytes->next();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) break;
    if (auto sent = co_await call.exchange.write(*piece); !sent) co_return sent;
  }
  co_return co_await call.exchange.end();
}

}  // namespace

Result<FilePlace> file_place(Call& call) {
  auto shown = http::percent_decode(call.match.tail);
  if (!shown || shown->size() > kFilePathBytesMax) return refuse(call, 400, "Path not found");
  auto absolute = absolute_path(*shown);
  if (!absolute) return refuse(call, 400, "Path traversal not allowed");
  return FilePlace{*std::move(shown), *std::move(absolute)};
}

std::unexpected<Error> file_refusal(Call& call, const Error& error) {
  switch (error.sys_errno) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return refuse(call, 400, "Path not found");
    case EACCES:
    case EPERM:
    case EROFS:
      return refuse(call, 400, "Permission denied");
    case EISDIR:
      return refuse(call, 400, "Path is not a file");
    case ENOSPC:
    case EDQUOT:
      return refuse(call, 400, "Error: no space left in the sandbox");
    default:
      break;
  }
  switch (error.code) {
    case Errc::NotFound:
      return refuse(call, 400, "Path not found");
    case Errc::Denied:
      return refuse(call, 400, "Permission denied");
    case Errc::InvalidArgument:
    case Errc::Protocol:
      return refuse(call, 400, "Error: " + error.message);
    default:
      return std::unexpected(error);
  }
}

awaitable<Result<void>> show_file(Call& call) {
  auto place = file_place(call);
  if (!place) co_return std::unexpected(place.error());
  const auto row = living_row(call);
  if (!row) co_return std::unexpected(row.error());
  (*row)->last_active = call.services().now();
  const auto there = co_await call.fleet().stat(call.caller, (*row)->name, place->absolute, true);
  if (!there) {
    if (!call.fleet().get(call.caller, (*row)->name)) co_return refuse(call, 404, kNoSandbox);
    co_return file_refusal(call, there.error());
  }
  if (there->entry.type == wire::EntryType::Folder)
    co_return co_await answer_folder(call, **row, *std::move(place));
  if (there->entry.type != wire::EntryType::File) co_return refuse(call, 400, "Path is not a file");
  co_return co_await answer_file(call, **row, *std::move(place));
}

}  // namespace caisson::sandboxer
