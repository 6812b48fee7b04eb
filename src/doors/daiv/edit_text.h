// doors/daiv/edit_text.h — one text in the place of another, as the original finds and replaces it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "doors/daiv/fs.h"

namespace caisson::daiv {

inline constexpr std::size_t kEditBytesMax = 32UL << 20U;  // of a file, before and after

struct Edited {
  std::uint64_t occurrences = 0;
  std::string text;  // the new one
};

// All are valid UTF-8.
[[nodiscard]] std::expected<Edited, FsError> edit_text(std::string_view text, std::string old_text,
                                                       std::string new_text, bool replace_all);

}  // namespace caisson::daiv
