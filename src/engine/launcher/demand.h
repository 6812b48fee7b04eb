// engine/launcher/demand.h — which sandboxes to make ahead, judged by what was asked for lately.
//
// A kind is an image, a tier, a user, mounts: all that a blank cannot change. Each kind that was
// asked for has a target that grows with the launches of the last seconds and shrinks by itself;
// kinds that nobody asks for any more are forgotten. Pure: the clock comes from the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/launch_request.h"

namespace caisson::engine {

inline constexpr std::size_t kKindsMax = 8;
inline constexpr std::size_t kBlanksPerKindMin = 2;
inline constexpr std::size_t kBlanksPerKindMax = 8;
inline constexpr std::size_t kBlanksMax = 24;
inline constexpr std::uint64_t kBlankBytesMax = 1ULL << 30U;  // of memory, all blanks together

class Demand {
 public:
  using Ready = std::span<const LaunchRequest* const>;  // the blanks that there are

  // A launch asked for this, whether or not something lay ready for it.
  void ask(const LaunchRequest& request, TimePoint now);

  // What to make next, when these lie ready. Nothing: there is enough of everything.
  [[nodiscard]] const LaunchRequest* missing(Ready ready, TimePoint now);

  // One that nobody will ask for any more. Nothing: all are of kinds that are wanted.
  [[nodiscard]] std::optional<std::size_t> unwanted(Ready ready) const;

  // Which of these has to go first so that there is room for one of `kind`: one of the
  // kind that was asked for longest ago. Nothing: there is room, or what is there is wanted more.
  struct Room {
    bool enough = false;
    std::optional<std::size_t> instead;
  };
  [[nodiscard]] Room room_for(const LaunchRequest& kind, Ready ready) const;

  void forget(const std::function<bool(const LaunchRequest&)>& which);

 private:
  struct Kind {
    LaunchRequest request;
    TimePoint asked;
    double lately = 0;  // launches, each worth half as much every kHalfLife
  };
  [[nodiscard]] std::size_t rank(const LaunchRequest& blank) const;

  std::vector<Kind> kinds_;  // the one that was asked for last comes first
};

}  // namespace caisson::engine
