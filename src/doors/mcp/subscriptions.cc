// Changes as they happen: that sandboxes come and go, and that a policy becomes another.
#include <algorithm>

#include "doors/mcp/call.h"
#include "doors/mcp/resources.h"

namespace caisson::mcp {

namespace json = boost::json;

namespace {

constexpr std::size_t kSubscriptionsMax = 256;

bool flag(const json::object& of, std::string_view name) {
  const json::value* at = of.if_contains(name);
  return at != nullptr && at->is_bool() && at->get_bool();
}

// In the newer era a notification names the request that it belongs to.
json::object marked(const Call& call, json::object params) {
  if (call.era == Era::Modern) params["_meta"] = json::object{{kMetaSubscription, call.message.id}};
  return params;
}

std::string notification(const Call& call, const Interest& interest, const control::Event& event) {
  const std::string_view type = event.type;
  if (type == "sandbox.created" || type == "sandbox.ended" || type == "sandbox.forked") {
    if (!interest.resources_list) return {};
    return notification_text("notifications/resources/list_changed", marked(call, {}));
  }
  if (type != "sandbox.network" && type != "sandbox.limits") return {};
  const std::string uri = policy_uri(event.sandbox);
  if (std::ranges::find(interest.policies, uri) == interest.policies.end()) return {};
  return notification_text("notifications/resources/updated", marked(call, {{"uri", uri}}));
}

}  // namespace

Interest interest_of(const json::object& params) {
  Interest out;
  const json::value* wanted = params.if_contains("notifications");
  if (wanted == nullptr || !wanted->is_object()) return out;
  const json::object& filter = wanted->get_object();
  out.resources_list = flag(filter, "resourcesListChanged");
  const json::value* uris = filter.if_contains("resourceSubscriptions");
  if (uris == nullptr || !uris->is_array()) return out;
  for (const json::value& one : uris->get_array()) {
    if (out.policies.size() >= kSubscriptionsMax) break;
    const auto name = one.is_string() ? parse_uri(one.get_string()) : std::nullopt;
    if (name && name->kind == ResourceName::Kind::Policy)
      out.policies.push_back(policy_uri(name->sandbox));
  }
  return out;
}

std::string acknowledgement(const Call& call, const Interest& interest) {
  json::object honoured;
  if (interest.resources_list) honoured["resourcesListChanged"] = true;
  if (!interest.policies.empty()) {
    json::array uris;
    for (const std::string& uri : interest.policies) uris.emplace_back(uri);
    honoured["resourceSubscriptions"] = std::move(uris);
  }
  json::object params;
  params["notifications"] = std::move(honoured);
  return notification_text("notifications/subscriptions/acknowledged",
                           marked(call, std::move(params)));
}

awaitable<void> listen(Call& call, Interest interest) {
  auto events = call.fleet().events(call.caller, std::nullopt, UINT64_MAX);
  while (events) {
    const auto event = co_await (*events)->next();
    if (!event) co_return;
    std::string text = notification(call, interest, *event);
    // One that does not read them is told by the end of the stream.
    if (!text.empty() && !call.lines.notify(std::move(text))) co_return;
  }
}

}  // namespace caisson::mcp
