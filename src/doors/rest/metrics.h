// doors/rest/metrics.h — counters of the door, and all of them as text for Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "control/fleet.h"
#include "doors/rest/router.h"
#include "store/store.h"

namespace caisson::rest {

class Metrics {
 public:
  // Seconds; the last bucket is +Inf.
  static constexpr std::array kBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                          0.1,    0.25,  0.5,    1.0,   2.5,  5.0,   10.0};

  explicit Metrics(std::span<const Route> table);
  // `route`: its place in the table, or the table's size for what matched none.
  void count(std::size_t route, unsigned status, microseconds took);
  [[nodiscard]] std::string text() const;

 private:
  struct PerRoute {
    std::vector<std::pair<unsigned, std::uint64_t>> statuses;  // few: a list is quicker than a map
    std::array<std::uint64_t, kBuckets.size() + 1> buckets{};
    std::uint64_t requests = 0;
    double seconds = 0;
  };
  [[nodiscard]] std::string labels(std::size_t route) const;

  std::span<const Route> table_;
  std::vector<PerRoute> routes_;
};

// Of the fleet, the store and the tokens.
[[nodiscard]] std::string fleet_metrics(const control::FleetCounters& fleet,
                                        const store::Store::Counters& store,
                                        std::uint64_t login_failures, std::size_t streams,
                                        std::string_view version);

}  // namespace caisson::rest
