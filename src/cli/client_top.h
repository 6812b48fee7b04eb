// cli/client_top.h — who uses how much, from two looks at the usage of each sandbox.
#pragma once

#include <boost/json/value.hpp>
#include <map>
#include <string>
#include <vector>

namespace caisson::cli {

inline constexpr std::size_t kTopRowsMax = 200;  // one call each and every time

struct TopRow {
  boost::json::value sandbox;
  boost::json::value usage;
};

// CPU and wall seconds of each sandbox at the last look.
struct CpuMark {
  double cpu = 0;
  double wall = 0;
};
using CpuMarks = std::map<std::string, CpuMark>;

// Busiest first. `marks` is what the last look left behind, and is replaced.
[[nodiscard]] std::string top_table(const std::vector<TopRow>& rows, CpuMarks& marks, double now);

}  // namespace caisson::cli
