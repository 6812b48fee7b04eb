// cli/samples.h — measured times and what is said of them. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace caisson::cli {

// In microseconds.
class Samples {
 public:
  void add(double us) { all_.push_back(us); }
  [[nodiscard]] std::size_t count() const noexcept { return all_.size(); }
  [[nodiscard]] double min() const { return quantile(0.0); }
  [[nodiscard]] double median() const { return quantile(0.5); }
  [[nodiscard]] double p90() const { return quantile(0.9); }
  [[nodiscard]] double p99() const { return quantile(0.99); }

 private:
  [[nodiscard]] double quantile(double part) const;
  std::vector<double> all_;
};

}  // namespace caisson::cli
