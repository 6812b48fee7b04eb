// main/front_door.h — one listener for every door: whose host or path it is, answers.
#pragma once

#include "control/access.h"
#include "control/logins.h"
#include "doors/console/console.h"
#include "doors/daiv/daiv.h"
#include "doors/mcp/mcp.h"
#include "doors/preview/preview.h"
#include "doors/rest/rest.h"
#include "doors/sandboxer/sandboxer.h"
#include "doors/shared/guard.h"

namespace caisson::server {

// All of them outlive the front door.
struct FrontRooms {
  rest::Door& rest;
  daiv::Door& daiv;
  mcp::Door& mcp;
  sandboxer::Door& sandboxer;
  preview::Door& preview;
  console::Door& console;
  control::Access& access;
  control::Logins& logins;
  const doors::HostRules& hosts;
};

// A host of a preview belongs to the program inside, with every path. On our own hosts the dialects
// have their few paths, and all others are the REST API's.
class FrontDoor final : public http::Handler {
 public:
  explicit FrontDoor(FrontRooms rooms) : rooms_(rooms) {}
  boost::asio::awaitable<void> handle(http::Exchange& exchange) override;

 private:
  [[nodiscard]] bool is_ours(const http::Request& request) const;
  static boost::asio::awaitable<void> refuse_host(http::Exchange& exchange);
  boost::asio::awaitable<void> ask(http::Exchange& exchange);
  boost::asio::awaitable<void> open_preview(http::Exchange& exchange);

  FrontRooms rooms_;
};

}  // namespace caisson::server
