// Forks, and a tree that becomes one branch of itself.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "doors/sandboxer/life.h"
#include "doors/sandboxer/views.h"
#include "doors/sandboxer/words.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

struct ForkInput {
  std::string label;
  std::string hostname;
};

Result<ForkInput> read_fork(Call& call) {
  TRY(need_body(call));
  doors::Problems problems;
  ForkInput wish;
  doors::Fields fields(call.body, json::array{"body"}, problems);
  wish.label = fields.text("label");
  wish.hostname = fields.text_or_null("hostname").value_or("");
  if (!problems.empty()) return refuse(call, problems);
  if (wish.label.size() > kLabelBytesMax)
    return refuse(call, 400, fmt::format("Label is too long: at most {} bytes.", kLabelBytesMax));
  return wish;
}

struct Forked {
  control::SandboxView view;
  bool memory = false;
};

control::ForkWish fork_wish(const Row& child, bool memory) {
  control::ForkWish wish;
  wish.hostname = child.hostname;
  wish.labels["sandboxer.id"] = child.id;
  wish.labels[std::string(control::kPublicLabel)] = "false";
  if (memory) wish.memory = true;
  return wish;
}

// With its memory where the tier can; else its files, and the processes begin anew. A tier that
// said no once is not asked again: each no is a row in the audit.
awaitable<Result<Forked>> fork_files(Call& call, const Row& parent, const Row& child) {
  const auto view = call.fleet().get(call.caller, parent.name);
  if (!view) co_return std::unexpected(view.error());
  auto& forgetful = call.services().forgetful_tiers;
  if (!forgetful.contains(view->record.tier)) {
    control::ForkWish wish = fork_wish(child, true);
    auto kept = co_await call.fleet().fork(call.caller, parent.name, std::move(wish));
    if (kept) co_return Forked{*std::move(kept), true};
    if (kept.error().code != Errc::Unsupported) co_return std::unexpected(kept.error());
    forgetful.insert(view->record.tier);
  }
  control::ForkWish wish = fork_wish(child, false);
  auto made = co_await call.fleet().fork(call.caller, parent.name, std::move(wish));
  if (!made) co_return std::unexpected(made.error());
  co_return Forked{*std::move(made), false};
}

bool is_in(const std::vector<RowPtr>& rows, const RowPtr& row) {
  return std::ranges::find(rows, row) != rows.end();
}

json::object coalesced_view(Call& call, const Row& final_row, std::string message) {
  json::object out = new_view(call, final_row);
  out["message"] = std::move(message);
  return out;
}

}  // namespace

awaitable<Result<void>> fork_sandbox(Call& call) {
  auto wish = read_fork(call);
  if (!wish) co_return std::unexpected(wish.error());
  const auto parent = living_row(call);
  if (!parent) co_return std::unexpected(parent.error());
  const auto place = co_await make_room(call.shared, call.caller.tenant);
  if (!place) co_return std::unexpected(place.error());
  const auto row = std::make_shared<Row>(**parent);
  auto id = fresh_id();
  if (!id) co_return std::unexpected(id.error());
  row->id = *std::move(id);
  row->parent = (*parent)->id;
  row->label = wish->label.empty() ? "Fork of " + (*parent)->label : wish->label;
  row->label = doors::cut_utf8(row->label, kLabelBytesMax);
  row->hostname = wish->hostname.empty() ? fork_hostname((*parent)->hostname, row->label)
                                         : lower_case(wish->hostname);
  row->is_public = false;
  row->ending = false;  // somebody may end the parent right now
  row->deleted_at.reset();
  row->main.reset();
  row->exit_code.reset();
  auto forked = co_await fork_files(call, **parent, *row);
  if (!forked && forked.error().field == "hostname")
    co_return refuse(call, 400, "Hostname is not valid: use letters, digits, '-' and '.'.");
  if (!forked && forked.error().code == Errc::NotFound) co_return refuse(call, 404, kNoSandbox);
  if (!forked) co_return std::unexpected(forked.error());
  row->name = forked->view.id;
  row->created = row->last_active = forked->view.created;
  (*parent)->last_active = row->created;
  const Start start = forked->memory ? Start::Kept : Start::Anew;
  auto begun = co_await begin_life(call.shared, call.caller, row, start);
  if (!begun) co_return std::unexpected(begun.error());
  call.services().tell(*row, "sandbox_forked",
                       json::object{{"parent_id", row->parent}, {"label", row->label}});
  co_await wait_until_ready(call.shared, call.caller, row);
  json::object out = new_view(call, *row);
  out["memory"] = forked->memory;
  co_return co_await answer(call, out);
}

awaitable<Result<void>> coalesce_sandboxes(Call& call) {
  const auto top = living_row(call);
  if (!top) co_return std::unexpected(top.error());
  const auto kept = living_row(call, call.match.second);
  if (!kept) co_return std::unexpected(kept.error());
  std::vector<RowPtr> all = call.services().rows.subtree(*top, true);
  if (!is_in(all, *kept))
    co_return refuse(call, 400, "Final sandbox is not a descendant of the parent sandbox");
  std::erase(all, *kept);
  if (all.empty() && *top == *kept)
    co_return co_await answer(
        call, coalesced_view(call, **kept, "Nothing to coalesce, target is already the root"));
  json::array ended;
  for (const RowPtr& row : all) {
    if (!row->living() || row->ending) continue;
    auto gone = co_await end_life(call.shared, call.caller, row, std::string(kCoalesced));
    if (!gone) co_return std::unexpected(gone.error());
    ended.emplace_back(row->id);
  }
  if (!(*kept)->living() || (*kept)->ending) co_return refuse(call, 404, kNoSandbox);
  call.services().rows.set_parent(*kept, "");
  auto written = co_await keep_row(call.shared, *kept);
  if (!written) co_return written;
  call.services().tell(
      **kept, "sandbox_coalesced",
      json::object{{"terminated_sandboxes", std::move(ended)}, {"final_sandbox", (*kept)->id}});
  co_return co_await answer(
      call,
      coalesced_view(call, **kept, fmt::format("Sandbox {} is now the new root", (*kept)->id)));
}

}  // namespace caisson::sandboxer
