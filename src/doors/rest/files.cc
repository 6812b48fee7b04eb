// Files and folders inside: write, remove, look, make, move.
#include <boost/json/array.hpp>

#include "doors/rest/answer_writer.h"
#include "doors/rest/handlers.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/range.h"
#include "doors/rest/text.h"
#include "doors/rest/upload.h"
#include "doors/rest/views.h"
#include "policy/json_text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr TextRule kPathRule{1, 4096, false};

// Names and what stands around them.
std::size_t bytes_of(const std::vector<control::FileView>& files) {
  std::size_t sum = files.capacity() * sizeof(control::FileView);
  for (const auto& file : files) {
    sum += file.entry.name.size() + file.entry.target.size() + file.path.size() + file.etag.size();
  }
  return sum;
}

Result<std::string> path_of(const Call& call) { return guest_path("path", call.match.tail); }

// "0755": three or four octal digits; 0 means that the old ones stay.
Result<std::uint32_t> mode_of(const Call& call) {
  const auto text = query_text(call, "mode");
  if (!text) return 0U;
  std::uint32_t mode = 0;
  for (const char c : *text) {
    if (c < '0' || c > '7') mode = 0x10000;
    mode = mode << 3U | static_cast<std::uint32_t>(c - '0');
  }
  if (text->size() < 3 || text->size() > 4 || mode > 0777U || mode == 0) {
    return bad_field("mode", "mode is \"" + std::string(cut_utf8(*text, 16)) +
                                 "\": want octal permissions from 001 to 0777");
  }
  return mode;
}

Result<control::Fleet::WriteWish> write_wish(Call& call) {
  const http::Request& request = call.request();
  control::Fleet::WriteWish wish;
  wish.mode = TRY(mode_of(call));
  wish.bulk = is_bulk(request);
  if (request.count("If-Match") > 0) wish.if_match = std::string(request.field("If-Match"));
  if (request.count("If-None-Match") > 0) {
    if (http::trim(request.field("If-None-Match")) != "*") {
      return bad_field("If-None-Match", "If-None-Match of an upload can only be \"*\"");
    }
    wish.exclusive = true;
  }
  if (request.count("Content-Range") > 0) {
    return bad_field("Content-Range", "a part of a file cannot be written: send all of it");
  }
  return wish;
}

// The file's state is not the one that was asked for: HTTP has a status of its own for that.
std::unexpected<Error> write_failure(Call& call, const Error& error) {
  const bool conditional =
      call.request().count("If-Match") > 0 || call.request().count("If-None-Match") > 0;
  const bool state = error.code == Errc::AlreadyExists || error.code == Errc::Busy;
  if (conditional && state) return refuse(call, 412, "PreconditionFailed", error.message);
  return std::unexpected(error);
}

// If-Match, before any byte of the body is taken: the one ETag that control compares again when it
// opens the file.
awaitable<Result<std::string>> matched(Call& call, std::string path, std::string if_match) {
  const auto now = co_await call.fleet().stat(call.caller, call.id(), path, true);
  if (!now && now.error().code == Errc::NotFound) {
    // The file is missing, or the sandbox is: only the former is a condition.
    auto known = call.fleet().get(call.caller, call.id());
    if (!known) co_return std::unexpected(known.error());
    co_return refuse(call, 412, "PreconditionFailed", "there is no such file");
  }
  if (!now) co_return std::unexpected(now.error());
  if (!etag_listed(if_match, now->etag)) {
    co_return refuse(call, 412, "PreconditionFailed", "the file has another ETag: " + now->etag);
  }
  co_return http::trim(if_match) == "*" ? std::string("*") : now->etag;
}

}  // namespace

awaitable<Result<void>> upload_file(Call& call) {
  const auto path = path_of(call);
  if (!path) co_return std::unexpected(path.error());
  if (path->empty() || path->ends_with('/')) {
    co_return bad_field("path", "path names no file: a folder is made by mkdir");
  }
  auto wish = write_wish(call);
  if (!wish) co_return std::unexpected(wish.error());
  if (wish->if_match) {
    auto etag = co_await matched(call, *path, *wish->if_match);
    if (!etag) co_return std::unexpected(etag.error());
    wish->if_match = std::move(*etag);
  }
  auto writer = co_await call.fleet().write_file(call.caller, call.id(), *path, std::move(*wish));
  if (!writer) co_return write_failure(call, writer.error());
  const std::size_t way = is_bulk(call.request()) ? kBulkWayBytes : 0;
  auto written = co_await pour(call, **writer, way);
  if (!written) co_return write_failure(call, written.error());
  const auto now = co_await call.fleet().stat(call.caller, call.id(), *path, true);
  if (!now) co_return std::unexpected(now.error());
  if (!now->etag.empty()) call.exchange.set("ETag", now->etag);
  json::object body;
  body["path"] = valid_utf8(now->path);
  body["size"] = written->bytes;
  body["etag"] = now->etag;
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> remove_file(Call& call) {
  const auto path = path_of(call);
  if (!path) co_return std::unexpected(path.error());
  if (path->empty()) co_return bad_field("path", "path is empty: name what is to be removed");
  const auto recursive = query_flag(call, "recursive", false);
  if (!recursive) co_return std::unexpected(recursive.error());
  const auto removed = co_await call.fleet().remove(call.caller, call.id(), *path, *recursive);
  if (!removed) co_return std::unexpected(removed.error());
  json::object body;
  body["path"] = valid_utf8(*path);
  body["removed"] = *removed;
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> stat_file(Call& call) {
  const auto path = path_of(call);
  if (!path) co_return std::unexpected(path.error());
  const auto follow = query_flag(call, "follow", true);
  if (!follow) co_return std::unexpected(follow.error());
  const auto file = co_await call.fleet().stat(call.caller, call.id(), *path, *follow);
  if (!file) co_return std::unexpected(file.error());
  const json::object body = to_json(*file);
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> list_files(Call& call) {
  const auto path = folder_path(call);
  if (!path) co_return std::unexpected(path.error());
  const auto recursive = query_flag(call, "recursive", false);
  if (!recursive) co_return std::unexpected(recursive.error());
  // How long it is, only the list itself can tell; so it is taken for a long one until it is there.
  if (auto room = co_await call.hold().resize(kListingBytes); !room) co_return room;
  const auto files = co_await call.fleet().list_files(call.caller, call.id(), *path, *recursive);
  if (!files) co_return std::unexpected(files.error());
  call.hold().force(bytes_of(*files));
  AnswerWriter writer(call, 200);
  writer.text() =
      "{\"path\": " + policy::json_text(json::value(valid_utf8(*path))) + ", \"entries\": [";
  for (std::size_t i = 0; i < files->size(); ++i) {
    if (i > 0) writer.text() += ", ";
    writer.text() += policy::json_text(to_json((*files)[i]));
    if (!writer.full()) continue;
    if (auto sent = co_await writer.send(); !sent) co_return sent;
  }
  writer.text() += "]}";
  co_return co_await writer.finish();
}

awaitable<Result<void>> make_folder(Call& call) {
  auto json = co_await read_json(call, Body::Required);
  if (!json) co_return std::unexpected(json.error());
  Fields fields(*json);
  fields.require("path");
  const auto text = fields.text("path", kPathRule);
  const bool parents = fields.boolean("parents").value_or(true);
  if (auto good = fields.finish(); !good) co_return good;
  const auto path = guest_path("path", *text);
  if (!path) co_return std::unexpected(path.error());
  auto made = co_await call.fleet().make_folder(call.caller, call.id(), *path, parents);
  if (!made) co_return made;
  json::object body;
  body["path"] = *path;
  co_return co_await answer(call, 201, body);
}

awaitable<Result<void>> move_file(Call& call) {
  auto json = co_await read_json(call, Body::Required);
  if (!json) co_return std::unexpected(json.error());
  Fields fields(*json);
  fields.require("from");
  fields.require("to");
  const auto from_text = fields.text("from", kPathRule);
  const auto to_text = fields.text("to", kPathRule);
  const bool replace = fields.boolean("replace").value_or(false);
  if (auto good = fields.finish(); !good) co_return good;
  const auto from = guest_path("from", *from_text);
  if (!from) co_return std::unexpected(from.error());
  const auto to = guest_path("to", *to_text);
  if (!to) co_return std::unexpected(to.error());
  auto moved = co_await call.fleet().move(call.caller, call.id(), *from, *to, replace);
  if (!moved) co_return moved;
  json::object body;
  body["from"] = *from;
  body["to"] = *to;
  co_return co_await answer(call, 200, body);
}

}  // namespace caisson::rest
