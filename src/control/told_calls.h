// control/told_calls.h — which calls have had their row about a process. A call in many pieces, and
// a socket that stays open for hours, is one row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>

namespace caisson::control {

inline constexpr std::size_t kToldCallsMax = 512;  // of one sandbox; beyond it one is told again

class ToldCalls {
 public:
  // True the first time. A call without an id is always the first.
  bool add(const std::string& request_id, std::uint32_t process) {
    if (request_id.empty()) return true;
    auto [at, fresh] = known_.emplace(request_id, process);
    if (!fresh) return false;
    order_.push_back(*at);
    if (order_.size() > kToldCallsMax) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }
  [[nodiscard]] bool has(const std::string& request_id, std::uint32_t process) const {
    return known_.contains({request_id, process});
  }
  [[nodiscard]] std::size_t size() const noexcept { return known_.size(); }

 private:
  using Key = std::pair<std::string, std::uint32_t>;
  std::set<Key> known_;
  std::deque<Key> order_;
};

}  // namespace caisson::control
