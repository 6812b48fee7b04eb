// What of a sandbox is shown to whom: its labels, its ports, and pages of its programs.
#include <boost/json/array.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/show.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

json::array numbers(const std::vector<std::uint16_t>& ports) {
  json::array out;
  for (const std::uint16_t port : ports) out.emplace_back(port);
  return out;
}

Result<std::map<std::string, std::string>> labels_of(const json::object& body) {
  Fields fields(body);
  fields.require("labels");
  std::map<std::string, std::string> labels;
  for (auto& [name, value] :
       fields.pairs("labels", control::kLabelsMax, {1, 128, false}, {0, 1024, false}))
    labels[name] = value;
  TRY(fields.finish());
  return labels;
}

Result<bool> visibility_of(const json::object& body) {
  Fields fields(body);
  fields.require("public");
  const bool wanted = fields.boolean("public").value_or(false);
  TRY(fields.finish());
  return wanted;
}

Result<std::optional<std::uint16_t>> port_of(const json::object& body) {
  Fields fields(body);
  const auto port = fields.integer("port", 1, 65535);
  TRY(fields.finish());
  if (!port) return std::nullopt;
  return static_cast<std::uint16_t>(*port);
}

}  // namespace

awaitable<Result<void>> set_labels(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto labels = labels_of(*body);
  if (!labels) co_return std::unexpected(labels.error());
  auto view = co_await call.fleet().set_labels(call.caller, call.id(), std::move(*labels));
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> set_visibility(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  const auto wanted = visibility_of(*body);
  if (!wanted) co_return std::unexpected(wanted.error());
  std::map<std::string, std::string> labels{
      {std::string(control::kPublicLabel), *wanted ? "true" : ""}};
  auto view = co_await call.fleet().set_labels(call.caller, call.id(), std::move(labels));
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> list_ports(Call& call) {
  const auto ports = co_await call.fleet().ports(call.caller, call.id());
  if (!ports) co_return std::unexpected(ports.error());
  const json::object body{{"exposed", numbers(ports->exposed)},
                          {"listening", numbers(ports->listening)}};
  co_return co_await answer(call, 200, body);
}

// Without a port: the one where a page is most likely, when there is one.
awaitable<Result<void>> create_preview(Call& call) {
  auto body = co_await read_json(call, Body::Optional);
  if (!body) co_return std::unexpected(body.error());
  auto port = port_of(*body);
  if (!port) co_return std::unexpected(port.error());
  if (auto known = call.fleet().get(call.caller, call.id()); !known)
    co_return std::unexpected(known.error());
  if (!call.services.options.preview) {
    co_return failure(Errc::Unsupported,
                      "this server shows no previews: start it with --vhost NAME, or use "
                      "/api/v1/sandboxes/{id}/ports/{port}/");
  }
  const auto preview = call.services.options.preview(call.caller, call.id(), *port);
  if (!preview) co_return std::unexpected(preview.error());
  const auto until =
      store::wall_now() + std::chrono::duration_cast<microseconds>(control::kTicketLife).count();
  const json::object out{{"port", *port ? json::value(**port) : json::value(nullptr)},
                         {"url", preview->url},
                         {"invitation", preview->invitation},
                         {"expires_at", store::to_rfc3339(until)}};
  co_return co_await answer(call, 201, out);
}

}  // namespace caisson::rest
