// From a method's name to its answer; and what the newer era adds to every answer.
#include <fmt/format.h>

#include <array>

#include "doors/mcp/resources.h"
#include "doors/mcp/tool.h"
#include "doors/shared/text.h"

namespace caisson::mcp {

namespace json = boost::json;

namespace {

constexpr std::int64_t kListTtlMs =
    3'600'000;  // of what only another version of the server changes

enum class Cache : std::uint8_t { None, Public, Private };

struct Method {
  std::string_view name;
  bool modern;
  bool legacy;
  Cache cache;
  awaitable<Answer> (*run)(Call& call);
};

awaitable<Answer> discover(Call& call) {
  json::object out;
  out["supportedVersions"] = supported_versions();
  out["capabilities"] = capabilities();
  out["serverInfo"] = server_info(call.options().version);
  out["instructions"] = instructions(Era::Modern);
  co_return out;
}

awaitable<Answer> ping(Call& /*call*/) { co_return json::object(); }

awaitable<Answer> list_tools(Call& /*call*/) {
  json::object out;
  out["tools"] = tool_listing();
  co_return out;
}

std::optional<RpcError> may_read(Call& call) {
  if (call.caller.may(store::Scope::Read)) return std::nullopt;
  call.services.access.denied(call.caller, "mcp " + call.message.method);
  return RpcError{
      kInvalidParams, "resources need a token with the scope \"read\": ask for another", {}, 403};
}

awaitable<Answer> resources_list(Call& call) {
  if (auto refused = may_read(call)) co_return std::unexpected(*refused);
  co_return list_resources(call);
}

awaitable<Answer> resources_templates(Call& /*call*/) { co_return list_templates(); }

awaitable<Answer> resources_read(Call& call) {
  if (auto refused = may_read(call)) co_return std::unexpected(*refused);
  co_return co_await read_resource(call);
}

awaitable<Answer> subscriptions_listen(Call& call) {
  if (auto refused = may_read(call)) co_return std::unexpected(*refused);
  auto seat = call.services.streams.take(call.caller.actor);
  if (!seat) co_return std::unexpected(RpcError{kInternalError, seat.error().message, {}, 429});
  Interest interest = interest_of(call.message.params);
  call.lines.notify(acknowledgement(call, interest));
  co_await listen(call, std::move(interest));
  json::object out;
  out["_meta"] = json::object{{kMetaSubscription, call.message.id}};
  co_return out;
}

constexpr std::array<Method, 8> kMethods{
    {{"server/discover", true, false, Cache::Public, discover},
     {"ping", false, true, Cache::None, ping},
     {"tools/list", true, true, Cache::Public, list_tools},
     {"tools/call", true, true, Cache::None, call_tool},
     {"resources/list", true, true, Cache::Private, resources_list},
     {"resources/templates/list", true, true, Cache::Public, resources_templates},
     {"resources/read", true, true, Cache::Private, resources_read},
     {"subscriptions/listen", true, false, Cache::None, subscriptions_listen}}};

// What a result says beside what was asked for.
void complete(Call& call, Cache cache, json::object& out) {
  if (call.era == Era::Legacy) return;
  out["resultType"] = "complete";
  if (cache != Cache::None) {
    out["ttlMs"] = cache == Cache::Public ? kListTtlMs : 0;
    out["cacheScope"] = cache == Cache::Public ? "public" : "private";
  }
  if (!out.contains("_meta")) out["_meta"] = json::object();
  out["_meta"].as_object()[kMetaServer] = server_info(call.options().version);
}

}  // namespace

RpcError internal(const Call& call, const Error& error) {
  if (call.options().on_failure) call.options().on_failure(call.caller.request_id, error);
  return {kInternalError,
          "something failed in the server; its log has it under request " + call.caller.request_id,
          {},
          500};
}

std::expected<std::string, RpcError> wanted_version(const Message& message) {
  const json::value* wanted = message.params.if_contains("protocolVersion");
  if (wanted == nullptr || !wanted->is_string())
    return std::unexpected(
        RpcError{kInvalidParams,
                 fmt::format("params.protocolVersion is missing: {} and {} are spoken",
                             kModernVersion, fmt::join(kLegacyVersions, ", ")),
                 {},
                 400});
  return std::string(wanted->get_string());
}

json::object welcome(std::string_view wanted, const McpOptions& options) {
  json::object out;
  out["protocolVersion"] = negotiate(wanted);
  out["capabilities"] = capabilities();
  out["serverInfo"] = server_info(options.version);
  out["instructions"] = instructions(Era::Legacy);
  return out;
}

awaitable<Answer> dispatch(Call& call) {
  for (const Method& method : kMethods) {
    if (method.name != call.message.method) continue;
    if (!(call.era == Era::Modern ? method.modern : method.legacy)) break;
    Answer answer;
    try {
      answer = co_await method.run(call);
    } catch (const std::exception& bug) {  // a bug ends its request, not the server
      answer = std::unexpected(
          internal(call, Error{Errc::Internal, std::string("exception: ") + bug.what(), 0}));
    }
    if (answer) complete(call, method.cache, *answer);
    co_return answer;
  }
  co_return std::unexpected(
      RpcError{kMethodNotFound,
               fmt::format("Method not found: {}", doors::lossy_utf8(call.message.method)),
               {},
               404});
}

}  // namespace caisson::mcp
