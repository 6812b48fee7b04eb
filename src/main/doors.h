// main/doors.h — every door of one server's HTTP port, made of its settings and its parts.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "control/access.h"
#include "control/fleet.h"
#include "control/history.h"
#include "control/logins.h"
#include "control/people.h"
#include "http/http.h"
#include "main/server_log.h"
#include "main/server_options.h"
#include "store/store.h"

namespace caisson::server {

// What they share; all of it outlives them.
struct DoorParts {
  boost::asio::any_io_executor executor;
  const policy::Settings& settings;
  control::Fleet& fleet;
  control::Access& access;
  store::Store& store;
  ServerLog& log;
  doors::HostRules hosts;
  std::function<std::string()> metrics;  // more lines for /metrics
};

class Doors {
 public:
  virtual ~Doors() = default;
  [[nodiscard]] static Result<std::unique_ptr<Doors>> make(DoorParts parts);

  // Before the first request: takes up what an earlier server left.
  virtual boost::asio::awaitable<Result<void>> open() = 0;
  virtual http::Handler& front() noexcept = 0;
  // What some of them do from time to time, until close().
  virtual boost::asio::awaitable<void> sweep() = 0;
  // What comes from now on is refused; what is under way goes on.
  virtual void close() noexcept = 0;
};

}  // namespace caisson::server
