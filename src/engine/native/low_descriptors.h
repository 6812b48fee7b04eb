// engine/native/low_descriptors.h — the numbers that a child may use: above those that the program
// it executes is handed, below those it drops.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/file.h"

namespace caisson::engine::native {

inline constexpr int kLiftedFdMin = 16;  // above all numbers that handed descriptors take

class LowDescriptors {
 public:
  Result<int> lift(int fd) {
    if (fd < 0) return -1;
    UniqueFd low = TRY(sys::duplicate(fd, kLiftedFdMin));
    if (low.get() >= sys::kParkedFdMin) {
      return failure(Errc::Exhausted, "launch: more than " + std::to_string(sys::kParkedFdMin) +
                                          " descriptors needed");
    }
    held_.push_back(std::move(low));
    return held_.back().get();
  }

 private:
  std::vector<UniqueFd> held_;
};

}  // namespace caisson::engine::native
