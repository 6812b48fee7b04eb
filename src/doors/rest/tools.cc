// The tools API: one call, one result.
#include "control/tools.h"

#include <boost/json/array.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/json_pieces.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/running.h"
#include "doors/rest/text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

std::size_t room_of(std::string_view tool) {
  if (tool == control::kFileList) return kListingBytes;
  if (tool == control::kFileRead) return kToolFileBytes;
  if (tool == control::kFileEdit) return 2 * kToolFileBytes;  // as it was, and as it will be
  if (tool == control::kFileSearch) return kToolFileBytes;
  return 0;
}

// Room for what will come, before it is known how much that is; and what counts a command's output.
awaitable<Result<engine::AdmitOutput>> take_room(Call& call, std::string tool) {
  const std::size_t more = room_of(tool);
  if (more == 0) co_return admit_output(call);
  const auto room = co_await call.hold().resize(call.hold().bytes() + more);
  if (!room) co_return std::unexpected(room.error());
  co_return engine::AdmitOutput{};
}

// See exec.cc: of a command that has run, what there is no room for is cut.
void fit(Call& call, json::object& result) {
  if (call.hold().overdraw(weight(result))) return;
  const std::size_t each = std::max<std::size_t>(call.hold().room(2) / 4, control::kOutputBytesMin);
  for (const std::string stream : {"stdout", "stderr"}) {
    json::value* text = result.if_contains(stream);
    if (text == nullptr || !text->is_string() || text->get_string().size() <= each) continue;
    *text = json::string(cut_utf8(text->get_string(), each));
    result.erase(stream + "_base64");
    result[stream + "_truncated"] = true;
  }
}

}  // namespace

awaitable<Result<void>> list_tools(Call& call) {
  json::object body;
  body["tools"] = call.fleet().tools();
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> execute_tool(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  Fields fields(*body);
  fields.require("tool");
  const auto tool = fields.text("tool", {1, 128, false});
  const json::object* given = fields.object("arguments");
  if (auto good = fields.finish(); !good) co_return good;
  json::object arguments = given != nullptr ? *given : json::object{};
  auto admit = co_await take_room(call, *tool);
  if (!admit) co_return std::unexpected(admit.error());
  const TimePoint begun = Clock::now();
  auto result = co_await call.fleet().execute_tool(call.caller, call.id(), *tool,
                                                   std::move(arguments), *std::move(admit));
  if (!result) co_return std::unexpected(result.error());
  call.hold().force(0);
  if (*tool == control::kShellExec) {
    fit(call, *result);
  } else if (auto room = co_await call.hold().resize(weight(*result)); !room) {
    co_return room;
  }
  call.hold().force(0);  // the answer counts itself
  const std::chrono::duration<double, std::milli> took = Clock::now() - begun;
  json::object out;
  out["tool"] = *tool;
  out["success"] = true;
  out["result"] = std::move(*result);
  out["duration_ms"] = took.count();
  co_return co_await answer(call, 200, out);
}

}  // namespace caisson::rest
