// Secrets that rules name: put, listed by name, removed. A value is in the request that brings it
// and in no answer.
#include <algorithm>
#include <boost/json/array.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/json_reader.h"
#include "egress/credentials/secret_box.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

// The document goes with the call; what it held must not stay behind in the heap.
void wipe_value(json::object& body) {
  json::value* value = body.if_contains("value");
  if (value != nullptr && value->is_string()) std::ranges::fill(value->get_string(), '\0');
}

Result<std::string> value_of(const json::object& body) {
  Fields fields(body);
  fields.require("value");
  auto value = fields.text("value", {1, egress::kStoredSecretBytesMax, false});
  TRY(fields.finish());
  return *std::move(value);
}

}  // namespace

awaitable<Result<void>> put_secret(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto value = value_of(*body);
  wipe_value(*body);
  if (!value) co_return std::unexpected(value.error());
  auto done = co_await call.fleet().put_secret(call.caller, call.id(), std::move(*value));
  if (!done) co_return done;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> list_secrets(Call& call) {
  const auto names = call.fleet().secret_names(call.caller);
  if (!names) co_return std::unexpected(names.error());
  json::array secrets;
  for (const std::string& name : *names) secrets.emplace_back(json::object{{"name", name}});
  json::object body;
  body["secrets"] = std::move(secrets);
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> remove_secret(Call& call) {
  auto done = co_await call.fleet().remove_secret(call.caller, call.id());
  if (!done) co_return done;
  co_return co_await answer_nothing(call);
}

}  // namespace caisson::rest
