#include "cli/samples.h"

#include <algorithm>

namespace caisson::cli {

double Samples::quantile(double part) const {
  if (all_.empty()) return 0;
  std::vector<double> sorted = all_;
  std::ranges::sort(sorted);
  const auto at = static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1));
  return sorted[at];
}

}  // namespace caisson::cli
