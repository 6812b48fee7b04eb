// policy/lexical_path.h — paths as text: cleaned and compared by whole components, never looked up
// on a disk. This answers what a policy says about a path. It does not open anything: whoever opens
// lets the kernel resolve the path inside the sandbox's root, since a link there can make the text
// mean something else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::policy {

inline constexpr std::size_t kPathBytesMax = 4095;  // PATH_MAX less its NUL

// For a path in a declaration: no "..", no "~", no control character, valid UTF-8. Repeated and
// trailing slashes and
// "." components go away. A relative path stays relative; the working folder itself is ".".
[[nodiscard]] Result<std::string> clean_path(std::string_view text);

// For a path one asks about: absolute and without "." and "..", which are resolved as text, not
// above "/". A relative path is taken from `workdir`; without one it is refused.
[[nodiscard]] Result<std::string> absolute_path(std::string_view text, std::string_view workdir);

// Is `path` the folder or below it? Both absolute and clean. /tmp/ab is not below /tmp/a.
[[nodiscard]] bool is_within(std::string_view path, std::string_view folder) noexcept;

}  // namespace caisson::policy
