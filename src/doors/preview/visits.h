// doors/preview/visits.h — what need not be asked for each of a page's hundred requests: which port
// a name means, and that a visit is in the audit.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace caisson::preview {

inline constexpr std::size_t kVisitsMax = 4096;  // remembered; then the oldest is forgotten
inline constexpr seconds kVisitLife{300};
inline constexpr std::size_t kLikelyPortsMax = 4096;
inline constexpr seconds kLikelyPortLife{5};

// A small memory: what was put there is found until its time is over, or others push it out.
template <class Value>
class Memory {
 public:
  Memory(std::size_t max, seconds life) : max_(max), life_(life) {}

  [[nodiscard]] std::optional<Value> find(const std::string& key, TimePoint now) const {
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second->until <= now) return std::nullopt;
    return found->second->value;
  }
  void put(const std::string& key, Value value, TimePoint now) {
    drop(key);
    if (order_.size() >= max_) {
      entries_.erase(order_.front().key);
      order_.pop_front();
    }
    order_.push_back({key, std::move(value), now + life_});
    entries_[key] = std::prev(order_.end());
  }
  void drop(const std::string& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    order_.erase(found->second);
    entries_.erase(found);
  }
  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }

 private:
  struct Entry {
    std::string key;
    Value value;
    TimePoint until;
  };
  std::size_t max_;
  seconds life_;
  std::list<Entry> order_;  // oldest first
  std::map<std::string, typename std::list<Entry>::iterator, std::less<>> entries_;
};

}  // namespace caisson::preview
