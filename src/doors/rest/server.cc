// The server about itself: health, metrics, and the contract as data and as a page.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "doors/rest/document/document.h"
#include "doors/rest/handlers.h"
#include "doors/rest/text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr std::pair<store::Scope, std::string_view> kScopes[] = {{store::Scope::Read, "read"},
                                                                 {store::Scope::Use, "use"},
                                                                 {store::Scope::Create, "create"},
                                                                 {store::Scope::Admin, "admin"}};

// Bytes of the program itself: anybody may ask for them, so nobody gets a copy of his own.
awaitable<Result<void>> send_constant(Call& call, std::string_view type, std::string_view text) {
  auto begun = co_await call.exchange.begin(200, type, text.size());
  if (!begun) co_return begun;
  if (auto sent = co_await call.exchange.write(std::as_bytes(std::span(text))); !sent) {
    co_return sent;
  }
  co_return co_await call.exchange.end();
}

}  // namespace

awaitable<Result<void>> get_health(Call& call) {
  // Asked more often than anything else, so it is put together by hand; a version needs no escapes.
  std::string body = R"({"status": "ok", "version": ")" + call.services.options.version + "\"}\n";
  co_await call.exchange.respond(200, "application/json", std::move(body));
  co_return Result<void>{};
}

awaitable<Result<void>> get_readiness(Call& call) {
  const auto ready = call.fleet().ready();
  if (!ready) {
    // Nobody is asked for a token here, so nobody is told more than the kind of trouble.
    call.services.log.failed(call.request().id, ready.error().within("not ready"));
    co_return refuse(call, 503, to_string(ready.error().code), "no sandbox can be created now");
  }
  std::string body = "{\"status\": \"ready\"}\n";
  co_await call.exchange.respond(200, "application/json", std::move(body));
  co_return Result<void>{};
}

// For a console that has just been opened: what is here, and who is asking.
awaitable<Result<void>> get_server(Call& call) {
  const DoorOptions& options = call.services.options;
  json::array scopes;
  for (const auto& [scope, name] : kScopes) {
    if (call.caller.may(scope)) scopes.emplace_back(name);
  }
  std::optional<control::Person> person;
  if (options.people != nullptr) person = options.people->find(call.caller.tenant);
  json::array tiers;
  for (const std::string& tier : options.tiers) tiers.emplace_back(tier);
  json::array profiles;
  for (const std::string& profile : options.profiles) profiles.emplace_back(profile);
  json::object caller{{"tenant", call.caller.tenant},
                      {"token", call.caller.actor},
                      {"scopes", std::move(scopes)},
                      {"name", person ? valid_utf8(person->name) : std::string()},
                      {"email", person ? valid_utf8(person->email) : std::string()}};
  const json::object body{
      {"version", options.version},
      {"vhost", options.vhost},
      {"open", options.open},
      {"profiles", std::move(profiles)},
      {"default_image", options.default_image},
      {"tiers", std::move(tiers)},
      {"minimum_tier", engine::tier_name(call.fleet().minimum_tier(call.caller.tenant))},
      {"caller", std::move(caller)}};
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> get_metrics(Call& call) {
  const Services& services = call.services;
  std::string text = services.metrics.text();
  text +=
      fleet_metrics(services.fleet.counters(), services.store.counters(),
                    services.access.failures(), services.streams.open(), services.options.version);
  text += fmt::format("# TYPE caisson_held_bytes gauge\ncaisson_held_bytes {}\n",
                      services.budget.held());
  if (services.options.extra_metrics) text += services.options.extra_metrics();
  co_await call.exchange.respond(200, "text/plain; version=0.0.4; charset=utf-8", std::move(text));
  co_return Result<void>{};
}

awaitable<Result<void>> get_openapi(Call& call) {
  call.exchange.set("Cache-Control", "no-cache");
  co_return co_await send_constant(call, "application/json", openapi_json());
}

awaitable<Result<void>> get_docs(Call& call) {
  call.exchange.set("Cache-Control", "no-cache");
  call.exchange.set("Content-Security-Policy", docs_csp());
  call.exchange.set("Referrer-Policy", "no-referrer");
  call.exchange.set("X-Frame-Options", "DENY");
  co_return co_await send_constant(call, "text/html; charset=utf-8", docs_html());
}

}  // namespace caisson::rest
