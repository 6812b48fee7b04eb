// Into a port of a sandbox, by its id or its name. By name everybody may, when it is public.
#include "doors/proxy/proxy.h"

#include <fmt/format.h>

#include <charconv>

#include "doors/sandboxer/call.h"
#include "doors/shared/json_text.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

constexpr std::string_view kDenied = "Access denied";
constexpr std::string_view kNoPort = "Sandbox container is missing an exposed port";
constexpr std::string_view kFailed = "Sandbox connection failed";
constexpr std::string_view kBroken =
    "Sandbox connection was unexpectedly closed, is it an HTTP server?";
constexpr std::string_view kPortField = "X-Sandbox-Port";
constexpr std::string_view kPublicActor = "public";

// To a WebSocket every no is a 403, before the handshake.
std::unexpected<Error> no(Call& call, unsigned status, std::string_view detail) {
  return refuse(call, call.request().wants_websocket ? 403 : status, detail);
}

Result<RowPtr> find_target(Call& call) {
  const std::string& word = call.match.id;
  const bool by_id = word.size() == kIdLength;
  Services& services = call.services();
  RowPtr row = by_id ? services.rows.by_id(word) : services.rows.by_name(word);
  if (!row || !row->living() || row->ending) return no(call, 404, kNoSandbox);
  if (services.is_public(*row) && (!by_id || !call.caller.tenant.empty())) return row;
  if (row->tenant != call.caller.tenant) return no(call, 403, kDenied);
  if (!call.caller.may(store::Scope::Use)) {
    services.access.denied(call.caller, "proxy /sandboxes/{id}/proxy/{path}");
    return no(call, 403, kDenied);
  }
  return row;
}

// A sandbox of somebody else's, or asked for by nobody we know: its owner's, and no more of his.
// The owner reads his audit, where the id of another tenant's token has no place.
control::Caller viewer_of(const Call& call, const Row& row) {
  if (call.caller.tenant == row.tenant) return call.caller;
  control::Caller viewer;
  viewer.tenant = row.tenant;
  viewer.actor = kPublicActor;
  viewer.scopes = static_cast<std::uint8_t>(store::Scope::Use);
  viewer.peer = call.request().peer.address;
  viewer.request_id = call.request().id;
  return viewer;
}

Result<std::optional<std::uint16_t>> wanted_port(Call& call) {
  const std::string_view text = call.request().field(kPortField);
  if (text.empty()) return std::nullopt;
  std::uint16_t port = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), port);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || port == 0)
    return no(call, 400, "X-Sandbox-Port is no port: want 1 to 65535");
  return port;
}

awaitable<Result<std::uint16_t>> choose_port(Call& call, control::Caller viewer, RowPtr row) {
  const auto wanted = wanted_port(call);
  if (!wanted) co_return std::unexpected(wanted.error());
  if (*wanted) co_return **wanted;
  if (row->port != 0) co_return row->port;
  const auto ports = co_await call.fleet().ports(viewer, row->name);
  if (!ports) co_return no(call, 502, kFailed);
  const auto likely = control::likely_port(*ports);
  if (!likely) co_return no(call, 500, kNoPort);
  co_return *likely;
}

// All strangers are one visitor, whatever they try: what they do is in the owner's share of the
// audit, and he would be turned away himself when they had filled it.
awaitable<Result<control::PortSocket>> connect(Call& call, control::Caller viewer, RowPtr row,
                                               std::uint16_t port) {
  const bool stranger = viewer.actor == kPublicActor;
  const std::string key =
      stranger ? fmt::format("{} {}", row->name, kPublicActor)
               : fmt::format("{} {} {} {}", row->name, port, viewer.actor, viewer.peer);
  Visits& visits = call.services().visits;
  if (!visits.begin(key, Clock::now()))
    co_return co_await call.fleet().connect_again(viewer, row->name, port);
  auto inside = co_await call.fleet().connect_port(viewer, row->name, port);
  if (!inside && !stranger) visits.forget(key);
  co_return inside;
}

// `tail` outlives it.
proxy::Passage passage_of(const Call& call, std::uint16_t port, std::string_view tail) {
  const http::Request& request = call.request();
  proxy::Passage passage;
  passage.port = port;
  passage.raw_tail = tail;
  passage.place = proxy::Place::UnderPath;
  passage.prefix = request.path.substr(0, request.path.size() - call.match.tail.size() - 1);
  passage.host = request.field("Host");
  passage.scheme = doors::is_secure(request) ? "https" : "http";
  return passage;
}

}  // namespace

awaitable<Result<void>> pass_on(Call& call) {
  const auto row = find_target(call);
  if (!row) co_return std::unexpected(row.error());
  // Strangers take no place from the owner.
  const bool stranger = call.caller.tenant != (*row)->tenant;
  auto ticket = call.services().streams.enter((stranger ? "public " : "") + (*row)->tenant);
  if (!ticket) co_return std::unexpected(ticket.error());
  const control::Caller viewer = viewer_of(call, **row);
  if (call.caller.tenant.empty()) call.caller = viewer;
  (*row)->last_active = call.services().now();
  const auto port = co_await choose_port(call, viewer, *row);
  if (!port) co_return std::unexpected(port.error());
  auto inside = co_await connect(call, viewer, *row, *port);
  if (!inside) {
    if (inside.error().code == Errc::Internal)
      call.services().failed(call.request().id, inside.error());
    co_return no(call, 502, kFailed);
  }
  // As it was sent, with the query.
  std::string tail = "/" + std::string(call.match.tail);
  if (!call.request().query.empty()) tail += '?' + call.request().query;
  proxy::Passage passage = passage_of(call, *port, tail);
  auto passed = co_await proxy::pass(call.exchange, std::move(inside->socket), std::move(passage));
  if (passed || call.exchange.begun()) co_return passed;
  switch (passed.error().code) {
    case Errc::Gone:
    case Errc::Denied:
    case Errc::TooLarge:
    case Errc::InvalidArgument:
      co_return std::unexpected(passed.error());
    case Errc::Protocol:
      call.refusal = Call::Refusal{502, doors::json_text(json::object{{"error", kBroken}})};
      co_return passed;
    default:
      co_return refuse(call, 502, kFailed);
  }
}

}  // namespace caisson::sandboxer
