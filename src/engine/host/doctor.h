// engine/host/doctor.h — what the examination means: for each thing caisson needs, whether it is
// there, what it is for, and what to do about it. Pure: the command prints it, a test gives it
// hosts that do not exist.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/host/examine.h"

namespace caisson::engine {

enum class Health : std::uint8_t {
  Present,
  Degraded,  // sandboxes run; a policy that asks for this very thing is refused, by name
  Missing,
};

// The ways to run a sandbox. Native as root and native without root need different things of a
// host.
enum class Way : std::uint8_t { Native, Rootless, Gvisor, MicroVm };
inline constexpr Way kWays[] = {Way::Native, Way::Rootless, Way::Gvisor, Way::MicroVm};

// All of them, by now; one that is only looked at would be refused by a plan.
[[nodiscard]] constexpr bool in_this_version(Way) noexcept { return true; }

[[nodiscard]] std::string_view to_string(Health health) noexcept;
[[nodiscard]] std::string_view to_string(Way way) noexcept;

struct Check {
  std::string name;
  std::string purpose;  // what it is for
  Health health = Health::Missing;
  std::string detail;           // what was found
  std::string remedy;           // empty when nothing is to be done
  std::vector<Way> needed_for;  // these cannot run while it is missing; empty for a convenience
};

[[nodiscard]] std::vector<Check> diagnose(const ExaminedHost& host);

// No check that this way needs is missing.
[[nodiscard]] bool can_run(std::span<const Check> checks, Way way);

// The native tier on this host, as whoever we are.
[[nodiscard]] Way native_way(const ExaminedHost& host);

}  // namespace caisson::engine
