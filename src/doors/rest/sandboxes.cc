// Sandboxes as wholes: create, look at, limit, pause, destroy.
#include <boost/json/array.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/views.h"
#include "doors/rest/wishes.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

// A POST that needs no body may carry an empty object, and nothing else.
awaitable<Result<void>> want_nothing(Call& call) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  if (!body->empty()) {
    const std::string name(body->begin()->key());
    co_return bad_field(name, name + " is not a field here: there is none");
  }
  co_return Result<void>{};
}

awaitable<Result<void>> show(Call& call, unsigned status, Result<control::SandboxView> view) {
  if (!view) co_return std::unexpected(view.error());
  const json::object body = to_json(*view);
  co_return co_await answer(call, status, body);
}

}  // namespace

awaitable<Result<void>> create_sandbox(Call& call) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  auto wish = create_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto view = co_await call.fleet().create(call.caller, std::move(*wish));
  if (view) call.exchange.set("Location", "/api/v1/sandboxes/" + view->id);
  co_return co_await show(call, 201, std::move(view));
}

awaitable<Result<void>> list_sandboxes(Call& call) {
  json::array sandboxes;
  for (const auto& view : call.fleet().list(call.caller)) sandboxes.emplace_back(to_json(view));
  json::object body;
  body["sandboxes"] = std::move(sandboxes);
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> get_sandbox(Call& call) {
  co_return co_await show(call, 200, call.fleet().get(call.caller, call.id()));
}

awaitable<Result<void>> destroy_sandbox(Call& call) {
  auto done = co_await call.fleet().destroy(call.caller, call.id());
  if (!done) co_return done;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> set_limits(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = limit_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto view = co_await call.fleet().set_limits(call.caller, call.id(), *wish);
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> set_network(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = network_wish(*body, "network");
  if (!wish) co_return std::unexpected(wish.error());
  auto view = co_await call.fleet().set_network(call.caller, call.id(), *std::move(wish));
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> get_usage(Call& call) {
  auto usage = co_await call.fleet().usage(call.caller, call.id());
  if (!usage) co_return std::unexpected(usage.error());
  const json::object body = to_json(*usage);
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> record_usage(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = usage_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto usage = co_await call.fleet().record_usage(call.caller, call.id(), *wish);
  if (!usage) co_return std::unexpected(usage.error());
  const json::object out = to_json(*usage);
  co_return co_await answer(call, 200, out);
}

awaitable<Result<void>> pause_sandbox(Call& call) {
  if (auto good = co_await want_nothing(call); !good) co_return good;
  auto view = co_await call.fleet().pause(call.caller, call.id());
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> resume_sandbox(Call& call) {
  if (auto good = co_await want_nothing(call); !good) co_return good;
  auto view = co_await call.fleet().resume(call.caller, call.id());
  co_return co_await show(call, 200, std::move(view));
}

}  // namespace caisson::rest
