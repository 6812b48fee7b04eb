// control/events.h — what happened lately, for whoever follows it.
//
// A ring of the last kEventsMax events. Each follower has a place of his own in it; one who is so
// slow that his next event was overwritten hears Gone.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/fleet.h"

namespace caisson::control {

inline constexpr std::size_t kEventsMax = 4096;
inline constexpr std::size_t kFollowersMax = 1024;

struct EventFilter {
  std::optional<std::string> tenant;   // none: of all
  std::optional<std::string> sandbox;  // none: of all
};

class EventRing {
 public:
  explicit EventRing(boost::asio::any_io_executor executor);
  EventRing(const EventRing&) = delete;
  EventRing& operator=(const EventRing&) = delete;
  ~EventRing();

  void add(std::string type, std::string tenant, std::string sandbox,
           boost::json::object data = {});
  // From the first event after `after` that is still kept.
  [[nodiscard]] Result<std::unique_ptr<EventStream>> follow(EventFilter filter,
                                                            std::uint64_t after);
  // No event comes any more: followers hear Gone.
  void close();

 private:
  friend class Follower;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace caisson::control
