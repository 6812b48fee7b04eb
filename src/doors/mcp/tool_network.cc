// expose and request_access: what reaches a sandbox, and what it may reach.
#include <fmt/format.h>

#include <algorithm>

#include "control/tools.h"
#include "doors/mcp/tool.h"

namespace caisson::mcp {

namespace json = boost::json;

awaitable<Result<ToolAnswer>> expose(ToolCall& call) {
  const auto port = [&]() -> Result<std::uint16_t> {
    control::ToolArguments read(call.arguments);
    const std::int64_t out = TRY(read.whole("port", 0, 1, 65535));
    TRY(read.finish());
    if (out == 0) return bad_field("arguments.port", "arguments.port: is missing");
    return static_cast<std::uint16_t>(out);
  }();
  if (!port) co_return std::unexpected(port.error());
  if (!call.call.options().preview)
    co_return failure(Errc::Unsupported,
                      fmt::format("this server shows no previews: whoever runs it can start it "
                                  "with --vhost NAME. Inside the sandbox the port is reached at "
                                  "http://127.0.0.1:{}/, for example by run with curl",
                                  *port));
  const auto ports = co_await call.fleet().ports(call.caller(), call.sandbox);
  if (!ports) co_return std::unexpected(ports.error());
  const auto preview = call.call.options().preview(call.caller(), call.sandbox, *port);
  if (!preview) co_return std::unexpected(preview.error());
  const bool listening = std::ranges::find(ports->listening, *port) != ports->listening.end();
  ToolAnswer answer;
  answer.structured = {{"port", *port},
                       {"url", preview->url},
                       {"invitation", preview->invitation},
                       {"listening", listening}};
  co_return answer;
}

awaitable<Result<ToolAnswer>> request_access(ToolCall& call) {
  auto answer = co_await pass_on(call, control::kRequestAccess);
  if (!answer) co_return answer;
  const bool allowed = answer->structured["allowed"].as_bool();
  answer->structured["status"] =
      allowed ? "The policy allows it already."
              : "Asked for. Nothing is granted yet: a person who runs the server sees the wish and "
                "decides. Go on with something else, and try again later.";
  co_return answer;
}

}  // namespace caisson::mcp
