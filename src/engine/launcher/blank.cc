#include "engine/launcher/blank.h"

#include <algorithm>
#include <vector>

#include "engine/carried_tier.h"

namespace caisson::engine {

// Everything that is fixed when a sandbox is made. Limits of the groups are not: they are set when
// it is handed out.
bool fits(const LaunchRequest& blank, const LaunchRequest& request) {
  LaunchRequest same = request;
  same.id = blank.id;
  // A machine has the memory that it was made with.
  if (blank.tier != policy::SandboxTier::Microvm)
    same.limits.memory_bytes = blank.limits.memory_bytes;
  // Another kernel's init has been told how many it may start.
  if (!is_carried(blank)) same.limits.processes = blank.limits.processes;
  same.limits.cpu_millis = blank.limits.cpu_millis;
  same.limits.cpu_time_us = blank.limits.cpu_time_us;
  same.limits.life_us = blank.limits.life_us;
  return same == blank;
}

bool can_become(const LaunchRequest& blank, const LaunchRequest& request) {
  const std::vector<std::string>& own = blank.stack.layers;
  const std::vector<std::string>& wanted = request.stack.layers;
  if (is_carried(blank)) return fits(blank, request);
  if (request.stack.host != blank.stack.host || wanted.size() < own.size() ||
      !std::equal(own.rbegin(), own.rend(), wanted.rbegin()))
    return false;
  LaunchRequest same = request;
  same.hostname = blank.hostname;
  same.stack = blank.stack;
  return fits(blank, same);
}

bool is_common(const LaunchRequest& request) {
  return request.folders.empty() && request.writable.empty() && request.trust.empty() &&
         request.store_mounts.empty() && request.memory.name.empty() &&
         request.program == Program::Init;
}

}  // namespace caisson::engine
