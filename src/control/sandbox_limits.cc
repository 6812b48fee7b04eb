// The limits of a sandbox: three layers, and what is acceptable.
#include "control/sandbox_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "control/sandbox_spec.h"

namespace caisson::control {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kCpuMin = 0.01;
constexpr double kCpuMax = 4096;
constexpr std::uint64_t kMemoryBytesMin = 1ULL << 20U;
constexpr std::uint64_t kBytesMax = 1ULL << 44U;
constexpr std::uint64_t kDiskBytesMin = 256ULL << 10U;
constexpr std::uint64_t kDiskBytesFloor = 4ULL << 20U;
constexpr std::uint64_t kDiskFilesMin = 128;
constexpr std::uint64_t kDiskFilesMax = 1'000'000'000;
constexpr std::uint32_t kProcessesMax = 4'194'304;
constexpr std::uint32_t kOpenFilesMin = 16;
constexpr std::uint32_t kOpenFilesMax = 1'048'576;

Result<void> in_range(const char* name, double value, double low, double high,
                      std::string_view unit) {
  if (std::isfinite(value) && value >= low && value <= high) return {};
  const std::string field = std::string("resource_limits.") + name;
  return bad_field(field, fmt::format("{} is {}: want {} to {}{}{}", field, value, low, high,
                                      unit.empty() ? "" : " ", unit));
}

Result<void> check_seconds(const char* name, const std::optional<double>& value) {
  if (!value) return {};
  if (*value > 0) return in_range(name, *value, 0, kLifeSecondsMax, "seconds");
  const std::string field = std::string("resource_limits.") + name;
  return bad_field(field, fmt::format("{} is {}: want more than 0 seconds", field, *value));
}

Result<void> check_bytes(const char* name, const std::optional<std::uint64_t>& value,
                         std::uint64_t low) {
  if (!value) return {};
  return in_range(name, static_cast<double>(*value) / kMiB, static_cast<double>(low) / kMiB,
                  static_cast<double>(kBytesMax) / kMiB, "MiB");
}

template <class T>
std::optional<T> first_of(const std::optional<T>& a, const std::optional<T>& b,
                          const std::optional<T>& c) {
  return a ? a : b ? b : c;
}

// `unit` is how many of the value's own are one of what the field is called.
template <class T>
Result<void> at_most(const char* name, std::optional<T>& value, const std::optional<T>& most,
                     double unit, std::string_view word) {
  if (!most || *most == T{}) return {};
  if (!value || *value == T{}) value = most;
  if (*value <= *most) return {};
  const std::string field = std::string("resource_limits.") + name;
  return std::unexpected(
      Error{Errc::Denied,
            fmt::format("{} is {}: the most on this server is {}{}{}", field,
                        static_cast<double>(*value) / unit, static_cast<double>(*most) / unit,
                        word.empty() ? "" : " ", word),
            0, field});
}

// Rounded up: less than the smallest unit must not become 0, which is none.
std::uint64_t micros(const std::optional<double>& seconds) {
  return seconds ? static_cast<std::uint64_t>(std::ceil(*seconds * 1e6)) : 0;
}

std::uint32_t millis_of_cpu(const std::optional<double>& cores) {
  return cores ? static_cast<std::uint32_t>(std::ceil(*cores * 1000)) : 0;
}

}  // namespace

LimitWish default_limits() {
  LimitWish limits;
  limits.cpu = 1;
  limits.memory_bytes = 512ULL << 20U;
  limits.processes = 256;
  limits.timeout_seconds = 600;
  return limits;
}

Result<void> check_limits(const LimitWish& wish) {
  if (wish.cpu) TRY(in_range("cpu", *wish.cpu, kCpuMin, kCpuMax, "cores"));
  TRY(check_bytes("memory_mb", wish.memory_bytes, kMemoryBytesMin));
  TRY(check_bytes("disk_mb", wish.disk_bytes, kDiskBytesMin));
  if (wish.processes) TRY(in_range("processes", *wish.processes, 1, kProcessesMax, ""));
  if (wish.disk_files)
    TRY(in_range("disk_files", static_cast<double>(*wish.disk_files), kDiskFilesMin, kDiskFilesMax,
                 ""));
  if (wish.open_files)
    TRY(in_range("open_files", *wish.open_files, kOpenFilesMin, kOpenFilesMax, ""));
  TRY(check_seconds("cpu_seconds", wish.cpu_seconds));
  TRY(check_seconds("timeout_seconds", wish.timeout_seconds));
  TRY(check_seconds("idle_seconds", wish.idle_seconds));
  if (wish.rest_seconds)
    TRY(in_range("rest_seconds", *wish.rest_seconds, 0, kLifeSecondsMax, "seconds"));
  return {};
}

LimitWish overlay(const LimitWish& wish, const LimitWish& profile, const LimitWish& server) {
  LimitWish out;
  out.cpu = first_of(wish.cpu, profile.cpu, server.cpu);
  out.memory_bytes = first_of(wish.memory_bytes, profile.memory_bytes, server.memory_bytes);
  out.processes = first_of(wish.processes, profile.processes, server.processes);
  out.disk_bytes = first_of(wish.disk_bytes, profile.disk_bytes, server.disk_bytes);
  out.disk_files = first_of(wish.disk_files, profile.disk_files, server.disk_files);
  out.open_files = first_of(wish.open_files, profile.open_files, server.open_files);
  out.cpu_seconds = first_of(wish.cpu_seconds, profile.cpu_seconds, server.cpu_seconds);
  out.timeout_seconds =
      first_of(wish.timeout_seconds, profile.timeout_seconds, server.timeout_seconds);
  out.idle_seconds = first_of(wish.idle_seconds, profile.idle_seconds, server.idle_seconds);
  out.rest_seconds = first_of(wish.rest_seconds, profile.rest_seconds, server.rest_seconds);
  return out;
}

Result<void> apply_most(LimitWish& limits, const LimitWish& most) {
  TRY(at_most("cpu", limits.cpu, most.cpu, 1, "cores"));
  TRY(at_most("memory_mb", limits.memory_bytes, most.memory_bytes, kMiB, "MiB"));
  TRY(at_most("processes", limits.processes, most.processes, 1, ""));
  TRY(at_most("timeout_seconds", limits.timeout_seconds, most.timeout_seconds, 1, "seconds"));
  // Without a wish it is half of the memory, where that is less.
  const std::uint64_t habit = limits_of(limits).disk_bytes;
  const bool fits = !limits.disk_bytes && habit != 0 && habit <= most.disk_bytes.value_or(habit);
  if (!fits) TRY(at_most("disk_mb", limits.disk_bytes, most.disk_bytes, kMiB, "MiB"));
  return {};
}

Result<void> check_most(const engine::Limits& limits, const LimitWish& most) {
  LimitWish wish;
  wish.cpu = limits.cpu_millis / 1000.0;
  wish.memory_bytes = limits.memory_bytes;
  wish.processes = limits.processes;
  wish.disk_bytes = limits.disk_bytes;
  wish.timeout_seconds = static_cast<double>(limits.life_us) / 1e6;
  LimitWish bound = wish;
  TRY(apply_most(bound, most));
  if (bound == wish) return {};
  return failure(Errc::Denied, "it has no limit where this server has a most");
}

engine::Limits limits_of(const LimitWish& wish) {
  engine::Limits limits;
  limits.memory_bytes = wish.memory_bytes.value_or(0);
  limits.processes = wish.processes.value_or(0);
  limits.cpu_millis = millis_of_cpu(wish.cpu);
  limits.cpu_time_us = micros(wish.cpu_seconds);
  limits.life_us = micros(wish.timeout_seconds);
  if (wish.disk_bytes) {
    limits.disk_bytes = *wish.disk_bytes;
  } else if (limits.memory_bytes != 0) {
    // The private layer lives in memory: half of the limit leaves the other half to the processes.
    limits.disk_bytes = std::max(limits.memory_bytes / 2, kDiskBytesFloor);
  }
  if (wish.disk_files) limits.disk_files = *wish.disk_files;
  if (wish.open_files) limits.open_files = *wish.open_files;
  return limits;
}

Result<ChangedLimits> change_limits(const ChangedLimits& now, const LimitWish& wish,
                                    const LimitWish& most) {
  TRY(check_limits(wish));
  const auto fixed = [](const char* name) {
    const std::string field = std::string("resource_limits.") + name;
    return std::unexpected(Error{Errc::Unsupported,
                                 field + ": is fixed when the sandbox is made; create another one",
                                 0, field});
  };
  if (wish.disk_bytes) return fixed("disk_mb");
  if (wish.disk_files) return fixed("disk_files");
  if (wish.open_files) return fixed("open_files");
  LimitWish bound = wish;
  TRY(apply_most(bound, most));
  ChangedLimits out = now;
  if (wish.idle_seconds) out.idle_seconds = wish.idle_seconds;
  if (wish.rest_seconds) out.rest_seconds = wish.rest_seconds;
  if (out.rest_seconds && *out.rest_seconds <= 0) out.rest_seconds.reset();
  if (wish.memory_bytes) out.limits.memory_bytes = *wish.memory_bytes;
  if (wish.processes) out.limits.processes = *wish.processes;
  if (wish.cpu) out.limits.cpu_millis = millis_of_cpu(wish.cpu);
  if (wish.cpu_seconds) out.limits.cpu_time_us = micros(wish.cpu_seconds);
  if (wish.timeout_seconds) out.limits.life_us = micros(wish.timeout_seconds);
  return out;
}

}  // namespace caisson::control
