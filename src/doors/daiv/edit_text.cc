#include "doors/daiv/edit_text.h"

#include <fmt/format.h>

namespace caisson::daiv {
namespace {

constexpr std::string_view kEndsOtherwise =
    "old_string ends with a newline, but the file does not end with a newline. ";

FsError last_line(std::uint64_t found) {
  FsError error{kStringNotFound, std::string(kEndsOtherwise)};
  if (found == 1) {
    error.message +=
        "Retry with the trailing newline removed from old_string (and from new_string if it also "
        "ends with a newline).";
  } else {
    error.message += fmt::format(
        "With the trailing newline removed, old_string would appear {} times in the file. Retry "
        "with the trailing newline removed and add surrounding context so the match is unique.",
        found);
  }
  return error;
}

FsError worded(const control::EditRefusal& refusal) {
  switch (refusal.fault) {
    case control::EditFault::NotFound:
      break;
    case control::EditFault::LastLine:
      return last_line(refusal.occurrences);
    case control::EditFault::Several:
      return {kMultipleOccurrences,
              fmt::format("String appears {} times in file. Use replace_all=True to replace all "
                          "instances, or provide a more specific string with surrounding context.",
                          refusal.occurrences)};
    case control::EditFault::TooLarge:
      return {kTooLarge,
              fmt::format("File would exceed maximum edit size of {} bytes", kEditBytesMax)};
  }
  return {kStringNotFound, std::string(kStringNotFound)};
}

}  // namespace

std::expected<Edited, FsError> edit_text(std::string_view text, std::string old_text,
                                         std::string new_text, bool replace_all) {
  auto out = control::edit_text(text, std::move(old_text), std::move(new_text),
                                replace_all ? control::EditScope::All : control::EditScope::One);
  if (!out) return std::unexpected(worded(out.error()));
  return *std::move(out);
}

}  // namespace caisson::daiv
