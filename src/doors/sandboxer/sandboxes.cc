// The list, one of it, and the small changes.
#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "doors/sandboxer/life.h"
#include "doors/sandboxer/views.h"
#include "doors/sandboxer/words.h"
#include "doors/shared/json_text.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

struct ChangeWish {
  std::optional<std::string> label;
  std::optional<bool> is_public;
};

Result<ChangeWish> read_change(Call& call) {
  TRY(need_body(call));
  doors::Problems problems;
  ChangeWish wish;
  doors::Fields fields(call.body, json::array{"body"}, problems);
  wish.label = fields.text_or_null("label");
  if (const json::value* said = fields.find_not_null("public"))
    wish.is_public = doors::read_flag(*said, fields.loc("public"), problems);
  if (!problems.empty()) return refuse(call, problems);
  if (wish.label && trimmed(*wish.label).empty())
    return refuse(call, 400, "Label cannot be empty.");
  if (wish.label && wish.label->size() > kLabelBytesMax)
    return refuse(call, 400, fmt::format("Label is too long: at most {} bytes.", kLabelBytesMax));
  return wish;
}

// Previews look at the sandbox's own label.
awaitable<Result<void>> publish(Call& call, const Row& row, bool is_public) {
  std::map<std::string, std::string> labels;
  labels[std::string(control::kPublicLabel)] = is_public ? "true" : "";
  auto set = co_await call.fleet().set_labels(call.caller, row.name, std::move(labels));
  if (!set) co_return std::unexpected(set.error());
  co_return Result<void>{};
}

awaitable<Result<void>> freeze(Call& call, bool paused) {
  const auto row = living_row(call);
  if (!row) co_return std::unexpected(row.error());
  const auto now = call.fleet().get(call.caller, (*row)->name);
  if (!now) co_return refuse(call, 404, kNoSandbox);
  // What is so already is no failure.
  if ((now->state == control::State::Paused) != paused) {
    const std::string name = (*row)->name;
    auto done = paused ? co_await call.fleet().pause(call.caller, name)
                       : co_await call.fleet().resume(call.caller, name);
    if (!done) co_return std::unexpected(done.error());
    call.services().tell(**row, paused ? "sandbox_paused" : "sandbox_unpaused", std::nullopt);
  }
  const json::object body{{"id", (*row)->id}, {"status", paused ? "paused" : "running"}};
  co_return co_await answer(call, body);
}

}  // namespace

awaitable<Result<void>> list_sandboxes(Call& call) {
  json::array all;
  for (const RowPtr& row : call.services().rows.of_tenant(call.caller.tenant))
    all.push_back(list_view(call, *row));
  const json::object body{{"sandboxes", std::move(all)}};
  co_return co_await answer(call, body);
}

awaitable<Result<void>> show_sandbox(Call& call) {
  const auto row = any_row(call);
  if (!row) co_return std::unexpected(row.error());
  const json::object body = detail_view(call, **row);
  co_return co_await answer(call, body);
}

awaitable<Result<void>> change_sandbox(Call& call) {
  const auto wish = read_change(call);
  if (!wish) co_return std::unexpected(wish.error());
  const auto row = living_row(call);
  if (!row) co_return std::unexpected(row.error());
  json::object changed;
  if (wish->is_public) {
    if (auto done = co_await publish(call, **row, *wish->is_public); !done) co_return done;
    (*row)->is_public = *wish->is_public;
    changed["public"] = *wish->is_public;
  }
  if (wish->label) {
    (*row)->label = *wish->label;
    changed["label"] = *wish->label;
  }
  if (!changed.empty()) {
    if (auto kept = co_await keep_row(call.shared, *row); !kept) co_return kept;
  }
  json::object body{{"id", (*row)->id}};
  if (wish->label) body["label"] = *wish->label;
  if (wish->is_public) body["public"] = *wish->is_public;
  call.services().tell(**row, "sandbox_updated", std::move(changed));
  co_return co_await answer(call, body);
}

awaitable<Result<void>> delete_sandbox(Call& call) {
  const auto row = living_row(call);
  if (!row) co_return std::unexpected(row.error());
  auto gone = co_await end_life(call.shared, call.caller, *row, std::string(kUserDeleted));
  if (!gone) co_return gone;
  const json::object body{{"message", fmt::format("Sandbox {} marked as deleted", (*row)->id)}};
  co_return co_await answer(call, body);
}

awaitable<Result<void>> pause_sandbox(Call& call) { co_return co_await freeze(call, true); }

awaitable<Result<void>> unpause_sandbox(Call& call) { co_return co_await freeze(call, false); }

awaitable<Result<void>> show_tree(Call& call) {
  const auto row = any_row(call);
  if (!row) co_return std::unexpected(row.error());
  const Rows& rows = call.services().rows;
  std::string body = R"({"tree":)";
  doors::append_string(body, tree_text(rows, *row));
  body += R"(,"tree_json":)" + tree_json(rows, *row) + "}";
  if (auto room = hold_answer(call, body.size()); !room) co_return room;
  co_await call.exchange.respond(200, "application/json; charset=utf-8", std::move(body));
  co_return Result<void>{};
}

}  // namespace caisson::sandboxer
