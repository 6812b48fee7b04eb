// The tools, on top of commands and files. Each call, allowed or not, is one row of the audit.
#include <algorithm>

#include "control/edit_file.h"
#include "control/fleet_impl.h"
#include "control/guest_path.h"
#include "control/search_files.h"
#include "control/text.h"
#include "control/tools.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

// What a row says the call was about, before anything of it is believed.
std::string object_of(const json::object& arguments) {
  for (const std::string_view name : {"command", "path", "url", "host"}) {
    const json::value* at = arguments.if_contains(name);
    if (at != nullptr && at->is_string()) return std::string(at->get_string());
  }
  return "";
}

bool changes_files(std::string_view tool) { return tool == kFileWrite || tool == kFileEdit; }

}  // namespace

json::array FleetImpl::tools() const { return tool_schemas(); }

awaitable<Result<json::object>> FleetImpl::execute_tool(const Caller& caller, std::string id,
                                                        std::string tool, json::object arguments,
                                                        engine::AdmitOutput admit) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  const bool allowed =
      std::ranges::find((*sandbox)->kept.tools, tool) != (*sandbox)->kept.tools.end();
  if (tool != kShellExec || !allowed)
    co_return co_await file_tool(caller, *sandbox, std::move(tool), std::move(arguments));
  auto wish = shell_exec_arguments(arguments);
  if (!wish) {
    Audited audit(*this, row(caller, "tool.shell_exec", (*sandbox)->id, object_of(arguments)));
    co_return co_await settle(audit, Result<json::object>(std::unexpected(wish.error())));
  }
  wish->admit = std::move(admit);
  auto outcome = co_await run(caller, *sandbox, *std::move(wish), "tool.shell_exec", "arguments.");
  if (!outcome) co_return std::unexpected(outcome.error());
  co_return shell_exec_answer(*outcome);
}

// Everything but a shell_exec that is allowed: the refusals too.
awaitable<Result<json::object>> FleetImpl::file_tool(const Caller& caller, SandboxPtr kept,
                                                     std::string tool, json::object arguments) {
  const Use sandbox(std::move(kept));
  Audited audit(*this,
                row(caller, "tool." + cut_text(tool, 64), sandbox->id, object_of(arguments)));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  Result<json::object> result;
  if (const auto known = check_tool_name(tool, "tool"); !known) {
    result = std::unexpected(known.error());
  } else if (std::ranges::find(sandbox->kept.tools, tool) == sandbox->kept.tools.end()) {
    ++counters_.denied;
    result = std::unexpected(
        Error{Errc::Denied, "tool: this sandbox may not use '" + tool + "'", 0, "tool"});
  } else if (tool == kHttpRequest) {
    result = co_await http_tool(sandbox.ptr(), std::move(arguments), audit);
  } else if (tool == kRequestAccess) {
    result = co_await access_tool(sandbox.ptr(), std::move(arguments), audit);
    if (audit.settled()) co_return result;
  } else if (const auto up = changes_files(tool) ? co_await before_change(sandbox.ptr())
                                                 : co_await woken(sandbox.ptr());
             !up) {
    result = std::unexpected(up.error());
  } else {
    result = co_await run_file_tool(sandbox.ptr(), std::move(tool), std::move(arguments), audit);
  }
  co_return co_await settle(audit, std::move(result));
}

awaitable<Result<json::object>> FleetImpl::run_file_tool(SandboxPtr sandbox, std::string tool,
                                                         json::object arguments, Audited& audit) {
  constexpr std::string_view kField = "arguments.path";
  if (tool == kFileRead) {
    const auto read = file_read_arguments(arguments);
    if (!read) co_return std::unexpected(read.error());
    auto path = guest_path(read->path, kWorkspace, kField);
    if (!path) co_return std::unexpected(path.error());
    auto answer = co_await read_tool(sandbox, *std::move(path));
    if (answer) audit.detail["bytes"] = answer->at("size");
    co_return answer;
  }
  if (tool == kFileWrite) {
    auto write = file_write_arguments(arguments);
    if (!write) co_return std::unexpected(write.error());
    auto path = guest_path(write->path, kWorkspace, kField);
    if (!path) co_return std::unexpected(path.error());
    audit.detail["bytes"] = write->content.size();
    co_return co_await write_tool(sandbox, *std::move(path), std::move(write->content));
  }
  if (tool == kFileEdit) {
    auto edit = file_edit_arguments(arguments);
    if (!edit) co_return std::unexpected(edit.error());
    auto answer = explained(*this, *sandbox,
                            co_await edit_file(sandbox->guest, sandbox->user(), *std::move(edit)));
    if (answer) audit.detail["replaced"] = answer->at("replaced");
    co_return answer;
  }
  if (tool == kFileSearch) {
    auto search = file_search_arguments(arguments);
    if (!search) co_return std::unexpected(search.error());
    co_return explained(*this, *sandbox,
                        co_await search_files(sandbox->guest, sandbox->user(), *std::move(search)));
  }
  const auto list = file_list_arguments(arguments);
  if (!list) co_return std::unexpected(list.error());
  const auto path = guest_path(list->path, kWorkspace, kField);
  if (!path) co_return std::unexpected(path.error());
  const auto listing = explained(
      *this, *sandbox, co_await sandbox->guest->list(sandbox->user(), *path, list->recursive));
  if (!listing) co_return std::unexpected(listing.error());
  audit.detail["entries"] = listing->entries.size();
  co_return file_list_answer(*path, *listing);
}

}  // namespace caisson::control
