#include "policy/resource_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "policy/wording.h"

namespace caisson::policy {

namespace {

constexpr double kNanosPerUnit = 1e9;
constexpr double kBytesPerMb = 1024.0 * 1024.0;

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  const bool overflow = __builtin_add_overflow(a, b, &sum);
  return overflow ? std::numeric_limits<std::int64_t>::max() : sum;
}

// Rounded to the nearest, as 0.07 is not exact in binary; but an amount that was spent is never
// nothing.
std::int64_t nano_usd(double usd) {
  if (usd <= 0) return 0;
  if (usd >= kCostUsdMax) return static_cast<std::int64_t>(kCostUsdMax * kNanosPerUnit);
  return std::max<std::int64_t>(std::llround(usd * kNanosPerUnit), 1);
}

double usd_of(std::int64_t nanos) { return static_cast<double>(nanos) / kNanosPerUnit; }

// Digits after the point: as many as the value has in thousandths or nano-dollars, at least
// `digits_min`. So a use that is just above its limit does not print as the same number.
std::string trimmed(double value, int digits, std::size_t digits_min) {
  std::string out = fmt::format("{:.{}f}", value, digits);
  const std::size_t shortest = out.find('.') + 1 + digits_min;
  while (out.size() > shortest && out.back() == '0') out.pop_back();
  return out;
}

std::string dollars(std::int64_t nanos) { return "$" + trimmed(usd_of(nanos), 9, 4); }

}  // namespace

std::string to_string(const ResourceUsage& usage) {
  return fmt::format(
      "{{running: {}, duration_ms: {}, cpu_seconds: {}, peak_memory_mb: {}, tokens_used: {}, "
      "cost_usd: {}}}",
      usage.running, duration_cast<milliseconds>(usage.duration).count(),
      trimmed(usage.cpu_seconds, 3, 1), trimmed(usage.peak_memory_mb, 1, 1), usage.tokens_used,
      decimal(usage.cost_usd, 1));
}

Result<void> ResourceMonitor::start(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (started_) return failure(Errc::Busy, "the resource monitor is started already");
  started_ = now;
  return {};
}

Result<void> ResourceMonitor::stop(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (!started_) return failure(Errc::Busy, "the resource monitor is not started");
  duration_ += std::max<nanoseconds>(now - *started_, nanoseconds(0));
  started_.reset();
  return {};
}

Result<void> ResourceMonitor::record_tokens(std::int64_t count) {
  if (count < 0) {
    return failure(Errc::InvalidArgument, fmt::format("tokens must not be negative: {}", count));
  }
  const std::lock_guard lock(mutex_);
  tokens_ = saturated_sum(tokens_, count);
  return {};
}

Result<void> ResourceMonitor::record_cost(double usd) {
  if (!std::isfinite(usd) || usd < 0) {
    return failure(Errc::InvalidArgument,
                   fmt::format("cost must be a finite number, not negative: {}", usd));
  }
  const std::lock_guard lock(mutex_);
  cost_nano_usd_ = saturated_sum(cost_nano_usd_, nano_usd(usd));
  return {};
}

Result<void> ResourceMonitor::record_usage(double cpu_seconds, std::uint64_t memory_bytes) {
  if (!std::isfinite(cpu_seconds) || cpu_seconds < 0) {
    return failure(
        Errc::InvalidArgument,
        fmt::format("CPU seconds must be a finite number, not negative: {}", cpu_seconds));
  }
  const std::lock_guard lock(mutex_);
  cpu_seconds_ = std::max(cpu_seconds_, cpu_seconds);  // samples may arrive out of order
  peak_memory_bytes_ = std::max(peak_memory_bytes_, memory_bytes);
  return {};
}

std::pair<bool, std::string> ResourceMonitor::check_limits() const {
  const std::lock_guard lock(mutex_);
  std::string reason;
  const auto add = [&](const std::string& text) { reason += (reason.empty() ? "" : "; ") + text; };
  if (tokens_ > limits_.max_tokens) {
    add(fmt::format("Token limit exceeded: {} tokens used, limit is {}", tokens_,
                    limits_.max_tokens));
  }
  const std::int64_t cost_max = nano_usd(limits_.max_cost_usd);
  if (cost_nano_usd_ > cost_max) {
    add(fmt::format("Cost limit exceeded: {} spent, limit is {}", dollars(cost_nano_usd_),
                    dollars(cost_max)));
  }
  if (cpu_seconds_ > limits_.max_cpu_seconds) {
    add(fmt::format("CPU limit exceeded: {} s used, limit is {} s", trimmed(cpu_seconds_, 3, 1),
                    trimmed(limits_.max_cpu_seconds, 3, 1)));
  }
  const double memory_mb = static_cast<double>(peak_memory_bytes_) / kBytesPerMb;
  if (memory_mb > static_cast<double>(limits_.max_memory_mb)) {
    add(fmt::format("Memory limit exceeded: {} MiB used, limit is {} MiB", trimmed(memory_mb, 3, 1),
                    limits_.max_memory_mb));
  }
  return {reason.empty(), reason};
}

ResourceUsage ResourceMonitor::usage_locked() const {
  return ResourceUsage{
      .running = started_.has_value(),
      .duration = duration_,
      .cpu_seconds = cpu_seconds_,
      .peak_memory_mb = static_cast<double>(peak_memory_bytes_) / kBytesPerMb,
      .tokens_used = tokens_,
      .cost_usd = usd_of(cost_nano_usd_),
  };
}

ResourceUsage ResourceMonitor::snapshot() const {
  const std::lock_guard lock(mutex_);
  return usage_locked();
}

ResourceUsage ResourceMonitor::snapshot(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  ResourceUsage usage = usage_locked();
  if (started_) usage.duration += std::max<nanoseconds>(now - *started_, nanoseconds(0));
  return usage;
}

}  // namespace caisson::policy
