// The tools API: one call, one result.
#include <boost/json/array.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/json_reader.h"

namespace caisson::rest {

namespace json = boost::json;

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
  const TimePoint begun = Clock::now();
  auto result =
      co_await call.fleet().execute_tool(call.caller, call.id(), *tool, std::move(arguments));
  if (!result) co_return std::unexpected(result.error());
  const std::chrono::duration<double, std::milli> took = Clock::now() - begun;
  json::object out;
  out["tool"] = *tool;
  out["success"] = true;
  out["result"] = std::move(*result);
  out["duration_ms"] = took.count();
  co_return co_await answer(call, 200, out);
}

}  // namespace caisson::rest
