#include "egress/gate/refused_names.h"

#include <limits>

namespace caisson::egress {

bool RefusedNames::is_new(const std::string& name, TimePoint now) {
  const auto known = held_.find(name);
  if (known != held_.end()) {
    if (known->second.times < std::numeric_limits<std::uint32_t>::max()) ++known->second.times;
    return false;
  }
  if (held_.size() < kRefusedNamesMax) held_.emplace(name, Held{now + seconds(1), 0});
  return true;
}

void RefusedNames::flush(TimePoint now, const Tell& tell) {
  for (auto it = held_.begin(); it != held_.end();) {
    if (now < it->second.until) {
      ++it;
      continue;
    }
    if (it->second.times > 0) tell(it->first, it->second.times);
    it = held_.erase(it);
  }
}

}  // namespace caisson::egress
