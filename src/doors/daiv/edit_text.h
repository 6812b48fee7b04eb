// doors/daiv/edit_text.h — control/edit_text.h in the words of this door.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "control/edit_text.h"
#include "doors/daiv/fs.h"

namespace caisson::daiv {

using control::kEditBytesMax;
using Edited = control::EditedText;

// All are valid UTF-8.
[[nodiscard]] std::expected<Edited, FsError> edit_text(std::string_view text, std::string old_text,
                                                       std::string new_text, bool replace_all);

}  // namespace caisson::daiv
