// cli/client_progress.h — one line on standard error that moves, when a person is there to see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace caisson::cli {

// "name  [#####-----]  45%  12M of 27M  5.1M/s", `width` characters at most.
[[nodiscard]] std::string progress_line(const std::string& label, std::uint64_t done,
                                        std::optional<std::uint64_t> total, double seconds,
                                        std::size_t width);

// Gone from the screen when it is destroyed.
class Progress {
 public:
  explicit Progress(std::string label);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void set_total(std::uint64_t total) noexcept { total_ = total; }
  void add(std::uint64_t bytes);

 private:
  std::string label_;
  bool person_;
  bool drawn_ = false;
  std::uint64_t done_ = 0;
  std::optional<std::uint64_t> total_;
  TimePoint start_;
  TimePoint next_;
};

}  // namespace caisson::cli
