// doors/mcp/call.h — one request on its way, and what its handlers share.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/json/object.hpp>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "doors/mcp/homes.h"
#include "doors/mcp/lines.h"
#include "doors/mcp/mcp.h"
#include "doors/mcp/message.h"
#include "doors/mcp/protocol.h"
#include "doors/mcp/seats.h"
#include "doors/mcp/sessions.h"
#include "doors/shared/budget.h"

namespace caisson::mcp {

struct Services {
  boost::asio::any_io_executor executor;
  control::Fleet& fleet;
  control::Access& access;
  const McpOptions& options;
  doors::Budget& budget;
  Homes& homes;
  Sessions& sessions;
  Seats& streams;
};

// It lives in the frame of whoever answers the request.
struct Call {
  Services& services;
  Lines& lines;  // where notifications go
  control::Caller caller;
  Era era = Era::Modern;
  std::shared_ptr<Home> home;  // none: a call names its sandbox
  Message message;
  std::unique_ptr<doors::Budget::Hold> held;

  [[nodiscard]] control::Fleet& fleet() const noexcept { return services.fleet; }
  [[nodiscard]] const McpOptions& options() const noexcept { return services.options; }
};

// dispatch.cc: every method but `initialize`, which belongs to the way it came.
awaitable<Answer> dispatch(Call& call);
// What `initialize` is answered with.
[[nodiscard]] boost::json::object welcome(std::string_view wanted, const McpOptions& options);
// The version that params of `initialize` name, or why not.
[[nodiscard]] std::expected<std::string, RpcError> wanted_version(const Message& message);

// subscriptions.cc: tells of changes until the caller leaves; `subscription` is the id of the
// request, in the newer era. Returns when the server ends, or events were lost.
struct Interest {
  bool resources_list = false;
  std::vector<std::string> policies;  // URIs
};
[[nodiscard]] Interest interest_of(const boost::json::object& params);
[[nodiscard]] std::string acknowledgement(const Call& call, const Interest& interest);
awaitable<void> listen(Call& call, Interest interest);

// What is told to a person who runs the server, and hidden from the caller.
[[nodiscard]] RpcError internal(const Call& call, const Error& error);

}  // namespace caisson::mcp
