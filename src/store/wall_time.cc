#include <fmt/format.h>

#include <chrono>

#include "store/store.h"

namespace caisson::store {

WallTime wall_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return duration_cast<microseconds>(now).count();
}

std::string to_rfc3339(WallTime time) {
  using std::chrono::days;
  using std::chrono::floor;
  // Years 0 to 9999 are all that the format can say; a record beyond them is damaged.
  constexpr WallTime kFirst = -62'167'219'200'000'000;
  constexpr WallTime kLast = 253'402'300'799'999'999;
  const std::chrono::sys_time<microseconds> point{
      microseconds(time < kFirst ? kFirst : (time > kLast ? kLast : time))};
  const auto day = floor<days>(point);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(point - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

std::string_view to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::Allowed:
      return "allowed";
    case Outcome::Denied:
      return "denied";
    case Outcome::Failed:
      return "failed";
  }
  return "unknown";
}

}  // namespace caisson::store
