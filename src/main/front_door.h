// main/front_door.h — one listener for every door: whose path it is, answers. The door of
// daiv-sandbox takes its own few; all others are the REST API's.
#pragma once

#include "doors/daiv/daiv.h"
#include "doors/rest/rest.h"

namespace caisson::server {

class FrontDoor final : public http::Handler {
 public:
  // Both outlive it.
  FrontDoor(rest::Door& rest, daiv::Door& daiv) : rest_(rest), daiv_(daiv) {}

  boost::asio::awaitable<void> handle(http::Exchange& exchange) override {
    if (daiv_.answers(exchange.request().path)) return daiv_.handle(exchange);
    return rest_.handle(exchange);
  }

 private:
  rest::Door& rest_;
  daiv::Door& daiv_;
};

}  // namespace caisson::server
