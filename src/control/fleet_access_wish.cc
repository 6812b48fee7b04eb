// The tool request_access: a sandbox's user asks to reach a host. It grants nothing. The wish is a
// row of the audit among those about the way out, as a denied one, so that whoever reads them can
// allow it where he allows what was denied; and an event, for whoever waits.
#include <fmt/format.h>

#include "control/fleet_impl.h"
#include "control/text.h"
#include "control/tool_arguments.h"
#include "control/tools.h"
#include "egress/wire/decision.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr std::size_t kHostBytesMax = 253;
constexpr std::size_t kReasonBytesMax = 1000;
constexpr std::int64_t kPortDefault = 443;

struct AccessWish {
  egress::HostName host;
  std::uint16_t port = 0;
  std::string reason;
};

Result<AccessWish> access_wish(const json::object& arguments) {
  ToolArguments read(arguments);
  const std::string host = TRY(read.text("host", kHostBytesMax));
  const std::int64_t port = TRY(read.whole("port", kPortDefault, 1, 65535));
  const std::string reason = TRY(read.text_or_none("reason", kReasonBytesMax)).value_or("");
  TRY(read.finish());
  auto name = egress::HostName::parse(host);
  if (!name)
    return bad_field("arguments.host",
                     fmt::format("arguments.host: want a name such as pypi.org, without a scheme, "
                                 "port or path: {}",
                                 egress::to_string(name.error())));
  return AccessWish{*std::move(name), static_cast<std::uint16_t>(port), reason};
}

// As far as rules can say: what the name resolves to is judged when somebody goes there.
bool allowed_already(const AccessWish& wish, const egress::Rules& rules) {
  egress::Request request;
  request.identity = egress::Identity::Confirmed;
  request.host = wish.host;
  request.port = wish.port;
  return egress::decide(request, rules, {}).outcome != egress::Outcome::Deny;
}

}  // namespace

awaitable<Result<json::object>> FleetImpl::access_tool(SandboxPtr sandbox, json::object arguments,
                                                       Audited& audit) {
  const auto wish = access_wish(arguments);
  if (!wish) co_return std::unexpected(wish.error());
  const auto rules = egress::Rules::compile(sandbox->kept.network);
  if (!rules) co_return std::unexpected(rules.error());
  json::object answer{{"host", wish->host.text()}, {"port", wish->port}};
  answer["allowed"] = allowed_already(*wish, *rules);
  audit.row.action = "egress.request";
  audit.row.object = fmt::format("{}:{}", wish->host.text(), wish->port);
  audit.detail["message"] = wish->reason.empty() ? "asked for" : "asked for: " + wish->reason;
  if (answer["allowed"].as_bool()) co_return answer;
  audit.detail["reason"] = "requested";
  audit.judge(nullptr);
  audit.row.outcome = store::Outcome::Denied;
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) co_return std::unexpected(written.error());
  events_.add("network.requested", sandbox->tenant, sandbox->id,
              {{"host", wish->host.text()}, {"port", wish->port}, {"reason", wish->reason}});
  co_return answer;
}

}  // namespace caisson::control
