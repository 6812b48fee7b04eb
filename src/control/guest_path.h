// control/guest_path.h — the first check of a path that a client names; the guest's own kernel is
// the second.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::control {

inline constexpr std::size_t kPathBytesMax = 4000;

// Absolute and in one spelling. A relative path is below `base`. Every ".." is Denied, also one
// that would stay inside: where it leads depends on links that only the guest's kernel sees. NUL,
// control characters and over-long paths are InvalidArgument. Both name `field`.
[[nodiscard]] Result<std::string> guest_path(std::string_view text, std::string_view base,
                                             std::string_view field);

}  // namespace caisson::control
