// doors/mcp/sessions.h — clients of the older era over HTTP: each has said `initialize` and owns
// one sandbox. A session belongs to the token that opened it; for every other it is not there.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "control/caller.h"
#include "doors/mcp/homes.h"
#include "doors/mcp/seats.h"
#include "doors/mcp/underway.h"

namespace caisson::mcp {

struct Session {
  Session(Seats::Seat its_seat, std::shared_ptr<Home> its_home)
      : seat(std::move(its_seat)), home(std::move(its_home)) {}
  Seats::Seat seat;
  std::string id;
  std::string actor;
  std::string tenant;
  std::string version;
  std::shared_ptr<Home> home;
  Underway underway{};
  TimePoint last_use{};
  std::size_t streams = 0;  // that listen
};

class Sessions {
 public:
  Sessions(Homes& homes, const McpOptions& options)
      : homes_(homes),
        options_(options),
        seats_("sessions", options.sessions_max, options.sessions_per_token) {}

  [[nodiscard]] Result<std::shared_ptr<Session>> open(const control::Caller& caller,
                                                      std::string_view version);
  // Nothing when there is none of this caller's.
  [[nodiscard]] std::shared_ptr<Session> find(const control::Caller& caller, std::string_view id);
  void close(const std::shared_ptr<Session>& session);
  // Ends those that nobody uses.
  void sweep();
  [[nodiscard]] std::size_t size() const noexcept { return sessions_.size(); }

 private:
  Homes& homes_;
  const McpOptions& options_;
  Seats seats_;
  std::map<std::string, std::shared_ptr<Session>, std::less<>> sessions_;
};

}  // namespace caisson::mcp
