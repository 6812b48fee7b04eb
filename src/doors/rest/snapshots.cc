// The files of sandboxes through time: keep, fork, undo, compare, merge.
#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "doors/rest/answer_writer.h"
#include "doors/rest/byte_stream.h"
#include "doors/rest/errors.h"
#include "doors/rest/file_wishes.h"
#include "doors/rest/handlers.h"
#include "doors/rest/show.h"
#include "doors/rest/states.h"
#include "doors/rest/text.h"
#include "policy/json_text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr std::size_t kConflictsShownMax = 1000;

Result<std::string> state_of(Call& call, std::string_view name) {
  const auto text = query_text(call, name);
  if (!text || text->empty()) {
    return bad_field(
        std::string(name),
        fmt::format("{} is missing: want sandbox:ID, snapshot:ID or image:REFERENCE", name));
  }
  return state_word(call, name, *text);
}

Result<std::string> path_below(const Call& call) {
  const std::string_view path = query_text(call, "path").value_or("/");
  if (!path.starts_with('/')) {
    return bad_field(
        "path", fmt::format("path is \"{}\": want an absolute path inside", cut_utf8(path, 128)));
  }
  return guest_path("path", path);
}

Result<bool> wants_patch(const Call& call) {
  const std::string_view format = query_text(call, "format").value_or("list");
  if (format == "list") return false;
  if (format == "patch") return true;
  return bad_field("format",
                   fmt::format("format is \"{}\": want list or patch", cut_utf8(format, 64)));
}

Result<control::DiffWish> diff_wish(Call& call) {
  control::DiffWish wish;
  wish.path = TRY(path_below(call));
  wish.from = TRY(state_of(call, "from"));
  wish.to = TRY(state_of(call, "to"));
  return wish;
}

std::size_t bytes_of(const std::vector<control::Change>& changes) {
  std::size_t sum = changes.capacity() * sizeof(control::Change);
  for (const auto& change : changes) sum += change.path.size();
  return sum;
}

awaitable<Result<void>> answer_changes(Call& call, const control::DiffWish& wish,
                                       const control::DiffView& view) {
  const auto quoted = [](std::string_view text) {
    return policy::json_text(json::value(valid_utf8(text)));
  };
  AnswerWriter writer(call, 200);
  writer.text() =
      fmt::format(R"({{"from": {}, "to": {}, "path": {}, "truncated": {}, "changes": [)",
                  quoted(wish.from), quoted(wish.to), quoted(wish.path), view.truncated);
  for (std::size_t i = 0; i < view.changes.size(); ++i) {
    if (i > 0) writer.text() += ", ";
    writer.text() += policy::json_text(to_json(view.changes[i]));
    if (!writer.full()) continue;
    if (auto sent = co_await writer.send(); !sent) co_return sent;
  }
  writer.text() += "]}";
  co_return co_await writer.finish();
}

// An error like any other, with the paths beside it.
awaitable<Result<void>> answer_conflicts(Call& call, const control::MergeView& view) {
  json::array paths;
  for (const auto& path : view.conflicts) {
    if (paths.size() == kConflictsShownMax) break;
    paths.emplace_back(valid_utf8(path));
  }
  json::object details{{"base", valid_utf8(view.base)},
                       {"conflicts", std::move(paths)},
                       {"conflicts_total", view.conflicts.size()}};
  const std::size_t count = view.conflicts.size();
  const Error error{Errc::Busy,
                    fmt::format("{} changed on both sides; nothing was applied",
                                count == 1 ? "1 file was" : fmt::format("{} files were", count)),
                    0,
                    {}};
  std::string body = error_text("Conflict", error, call.request().id, std::move(details));
  body += '\n';
  co_await call.exchange.respond(409, "application/json", std::move(body));
  co_return Result<void>{};
}

}  // namespace

awaitable<Result<void>> create_snapshot(Call& call) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  auto wish = snapshot_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto view = co_await call.fleet().snapshot(call.caller, call.id(), std::move(*wish));
  if (view) call.exchange.set("Location", "/api/v1/snapshots/" + view->id);
  co_return co_await show(call, 201, std::move(view));
}

awaitable<Result<void>> list_sandbox_snapshots(Call& call) {
  auto views = call.fleet().snapshots(call.caller, call.id());
  if (views.empty()) {
    // Snapshots outlive their sandbox; one that is neither known nor has any is not found.
    auto known = call.fleet().get(call.caller, call.id());
    if (!known) co_return std::unexpected(known.error());
  }
  co_return co_await show_list(call, "snapshots", std::move(views));
}

awaitable<Result<void>> list_snapshots(Call& call) {
  co_return co_await show_list(call, "snapshots",
                               call.fleet().snapshots(call.caller, std::nullopt));
}

awaitable<Result<void>> get_snapshot(Call& call) {
  co_return co_await show(call, 200, call.fleet().get_snapshot(call.caller, call.id()));
}

awaitable<Result<void>> remove_snapshot(Call& call) {
  auto gone = co_await call.fleet().remove_snapshot(call.caller, snapshot_id(call, call.id()));
  if (!gone) co_return gone;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> fork_sandbox(Call& call) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  auto wish = fork_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto view = co_await call.fleet().fork(call.caller, call.id(), std::move(*wish));
  if (view) call.exchange.set("Location", "/api/v1/sandboxes/" + view->id);
  co_return co_await show(call, 201, std::move(view));
}

awaitable<Result<void>> undo(Call& call) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  auto wish = undo_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  if (wish->snapshot) wish->snapshot = snapshot_id(call, *wish->snapshot);
  auto view = co_await call.fleet().undo(call.caller, call.id(), std::move(*wish));
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> promote_sandbox(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = promote_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto view = co_await call.fleet().promote(call.caller, call.id(), std::move(*wish));
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> diff(Call& call) {
  const auto patch = wants_patch(call);
  if (!patch) co_return std::unexpected(patch.error());
  const auto wish = diff_wish(call);
  if (!wish) co_return std::unexpected(wish.error());
  if (*patch) {
    if (auto room = co_await call.hold().resize(kTransferBytes); !room) co_return room;
    auto bytes = co_await call.fleet().patch(call.caller, *wish);
    if (!bytes) co_return std::unexpected(bytes.error());
    co_return co_await stream_out(call, **bytes, "text/x-diff", "changes", ".patch");
  }
  if (auto room = co_await call.hold().resize(kListingBytes); !room) co_return room;
  const auto view = co_await call.fleet().diff(call.caller, *wish);
  if (!view) co_return std::unexpected(view.error());
  call.hold().force(bytes_of(view->changes));
  co_return co_await answer_changes(call, *wish, *view);
}

awaitable<Result<void>> merge(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = merge_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto from = state_word(call, "from", wish->from);
  if (!from) co_return std::unexpected(from.error());
  wish->from = std::move(*from);
  auto view = co_await call.fleet().merge(call.caller, call.id(), std::move(*wish));
  if (view && !view->conflicts.empty()) co_return co_await answer_conflicts(call, *view);
  co_return co_await show(call, 200, std::move(view));
}

}  // namespace caisson::rest
