// egress/gate/tool_fetch.h — one request of a tool in a sandbox's name: see Gate::fetch().
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "base/result.h"
#include "egress/gate/gate_core.h"
#include "egress/gate/tool_request.h"

namespace caisson::egress {

[[nodiscard]] boost::asio::awaitable<Result<ToolAnswer>> fetch_for_tool(
    std::shared_ptr<GateCore> core, ToolRequest request);

}  // namespace caisson::egress
