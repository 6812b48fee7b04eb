// engine/usage.h — what a sandbox has used so far.
#pragma once

#include <cstdint>

namespace caisson::engine {

struct Usage {
  std::uint64_t cpu_time_us = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t oom_kills = 0;
  std::uint32_t processes = 0;
  std::uint32_t reserved = 0;
  std::uint64_t io_read_bytes = 0;
  std::uint64_t io_write_bytes = 0;

  friend bool operator==(const Usage&, const Usage&) = default;
};

enum class EndReason : std::uint8_t {
  Running,  // it has not ended
  Exited,   // init ended by itself, after a shutdown
  Destroyed,
  CpuTime,      // the tree used more CPU time than its limit
  Life,         // its wall time is over
  InitDied,     // init was killed from outside or failed to begin
  OutOfMemory,  // the memory limit left nothing but init, and then init
};

[[nodiscard]] const char* to_string(EndReason reason) noexcept;

}  // namespace caisson::engine
