// Sandboxes as wholes: create, look at, limit, pause, stop, destroy.
#include <boost/json/array.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/show.h"
#include "doors/rest/states.h"
#include "doors/rest/wishes.h"
#include "doors/shared/guard.h"

namespace caisson::rest {

namespace {

constexpr std::size_t kUsageIdsMax = 64;

}  // namespace

awaitable<Result<void>> create_sandbox(Call& call) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  auto wish = create_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  if (wish->snapshot) wish->snapshot = snapshot_id(call, *wish->snapshot);
  auto view = co_await call.fleet().create(call.caller, std::move(*wish));
  if (view) call.exchange.set("Location", "/api/v1/sandboxes/" + view->id);
  co_return co_await show(call, 201, std::move(view));
}

awaitable<Result<void>> list_sandboxes(Call& call) {
  co_return co_await show_list(call, "sandboxes", call.fleet().list(call.caller));
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
  co_return co_await show(call, 200, std::move(usage));
}

// A list on somebody's screen asks for many, often.
awaitable<Result<void>> list_usage(Call& call) {
  const auto ids = doors::list_items(query_text(call, "ids").value_or(""));
  if (ids.empty() || ids.size() > kUsageIdsMax)
    co_return bad_field("ids", "ids: want 1 to 64 ids of sandboxes, separated by commas");
  boost::json::object all;
  for (const auto id : ids) {
    const auto usage = co_await call.fleet().usage(call.caller, std::string(id));
    if (usage) all[id] = to_json(*usage);
  }
  boost::json::object body;
  body["usage"] = std::move(all);
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> record_usage(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = usage_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto usage = co_await call.fleet().record_usage(call.caller, call.id(), *wish);
  co_return co_await show(call, 200, std::move(usage));
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

awaitable<Result<void>> hibernate_sandbox(Call& call) {
  if (auto good = co_await want_nothing(call); !good) co_return good;
  auto view = co_await call.fleet().hibernate(call.caller, call.id());
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> stop_sandbox(Call& call) {
  if (auto good = co_await want_nothing(call); !good) co_return good;
  auto view = co_await call.fleet().stop_sandbox(call.caller, call.id());
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> start_sandbox(Call& call) {
  if (auto good = co_await want_nothing(call); !good) co_return good;
  auto view = co_await call.fleet().start_sandbox(call.caller, call.id());
  co_return co_await show(call, 200, std::move(view));
}

}  // namespace caisson::rest
