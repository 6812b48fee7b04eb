// control/edit_text.h — one text in the place of another: found exactly, and only once unless all
// are meant. Doors say in their own words what is wrong.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace caisson::control {

inline constexpr std::size_t kEditBytesMax = 32UL << 20U;  // of a text, before and after

struct EditedText {
  std::uint64_t occurrences = 0;
  std::string text;  // the new one
};

enum class EditFault : std::uint8_t {
  NotFound,
  LastLine,  // not found; without the line feed at its end it is, so often as `occurrences` says
  Several,   // found so often as `occurrences` says, and one is meant
  TooLarge,  // the new text would be
};

struct EditRefusal {
  EditFault fault = EditFault::NotFound;
  std::uint64_t occurrences = 0;
};

enum class EditScope : std::uint8_t { One, All };

// All are valid UTF-8. What is not found as it stands is tried with the other line ends, and the
// new text then gets these, too. An empty old text is found before each character and at the end.
[[nodiscard]] std::expected<EditedText, EditRefusal> edit_text(std::string_view text,
                                                               std::string old_text,
                                                               std::string new_text,
                                                               EditScope scope);

}  // namespace caisson::control
