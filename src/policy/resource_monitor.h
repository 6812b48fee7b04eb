// policy/resource_monitor.h — counts what a sandbox used against its limits. Safe from many
// threads. It keeps the account and says when a limit is passed; ending the sandbox is somebody
// else's work.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "policy/capability.h"

namespace caisson::policy {

struct ResourceUsage {
  bool running = false;
  nanoseconds duration{0};  // between start and stop, added up
  double cpu_seconds = 0;
  double peak_memory_mb = 0;
  std::int64_t tokens_used = 0;
  double cost_usd = 0;

  friend bool operator==(const ResourceUsage&, const ResourceUsage&) = default;
};

[[nodiscard]] std::string to_string(const ResourceUsage& usage);

class ResourceMonitor {
 public:
  explicit ResourceMonitor(ResourceLimits limits) : limits_(limits) {}

  [[nodiscard]] Result<void> start(TimePoint now);
  [[nodiscard]] Result<void> stop(TimePoint now);

  // These count whether started or not: the bill for a call may arrive after the end. Sums stop at
  // the largest number instead of wrapping, so that no report can bring a sandbox below its limit
  // again.
  [[nodiscard]] Result<void> record_tokens(std::int64_t count);
  [[nodiscard]] Result<void> record_cost(double usd);
  // A sample of the process tree: CPU time since its start, memory in use now.
  [[nodiscard]] Result<void> record_usage(double cpu_seconds, std::uint64_t memory_bytes);

  // (true, "") within all limits; otherwise (false, every limit that is passed). Reaching a limit
  // is not passing it.
  [[nodiscard]] std::pair<bool, std::string> check_limits() const;

  [[nodiscard]] ResourceUsage snapshot() const;  // a running stretch is not in the duration
  [[nodiscard]] ResourceUsage snapshot(TimePoint now) const;  // it is, up to now
  [[nodiscard]] const ResourceLimits& limits() const noexcept { return limits_; }

 private:
  [[nodiscard]] ResourceUsage usage_locked() const;

  const ResourceLimits limits_;
  mutable std::mutex mutex_;  // guards all below
  std::optional<TimePoint> started_;
  nanoseconds duration_{0};
  double cpu_seconds_ = 0;
  std::uint64_t peak_memory_bytes_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t cost_nano_usd_ = 0;  // an integer: ten dimes are a dollar
};

}  // namespace caisson::policy
