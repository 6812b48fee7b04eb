#include "engine/link/exec_exit.h"

#include <algorithm>
#include <cstdint>

namespace caisson::engine {
namespace {

microseconds to_us(std::uint64_t value) {
  return microseconds(static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX / 4)));
}

}  // namespace

void take_exit(ExecResult& result, const wire::ExitedBody& body) {
  result.signal = std::clamp(body.signal, 0, 127);
  result.exit_code =
      result.signal != 0 ? kSignalBase + result.signal : std::clamp(body.code, 0, 255);
  result.out_lost += body.lost[0];
  result.err_lost += body.lost[1];
  result.timed_out = (body.flags & wire::kExitTimedOut) != 0;
  result.oom_killed = (body.flags & wire::kExitOomKilled) != 0;
  result.tree_killed = (body.flags & wire::kExitTreeKilled) != 0;
  result.wall = to_us(body.wall_us);
  result.cpu = std::max(to_us(body.tree_cpu_us), to_us(body.user_us) + to_us(body.system_us));
  result.peak_rss_kib = body.peak_rss_kib;
}

}  // namespace caisson::engine
