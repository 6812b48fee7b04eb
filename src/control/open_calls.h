// control/open_calls.h — calls under way, by their token. A token that is withdrawn or expires
// takes them with it: a socket that was opened yesterday ends with the right to open it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace caisson::control {

// Lives on the I/O thread. An entry may outlive it.
class OpenCalls : public std::enable_shared_from_this<OpenCalls> {
 public:
  // Known until the result is dropped. `cut` is called at most once, from here or from the timer
  // when `left` is over; it must not run anything else of the call before it returns.
  [[nodiscard]] std::shared_ptr<void> add(std::string actor, std::string request_id,
                                          std::function<void()> cut);
  [[nodiscard]] std::shared_ptr<void> add_until(std::string actor, std::string request_id,
                                                std::function<void()> cut,
                                                const boost::asio::any_io_executor& executor,
                                                microseconds left);

  // Cuts every call of this actor but the one that asks for it, which is still to be answered.
  void cut(std::string_view actor, std::string_view but_request_id);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Entry;
  [[nodiscard]] std::shared_ptr<Entry> enter(std::string actor, std::string request_id,
                                             std::function<void()> cut);
  void leave(Entry& entry);

  std::map<std::string, std::set<Entry*>, std::less<>> by_actor_;
  std::size_t size_ = 0;
};

}  // namespace caisson::control
