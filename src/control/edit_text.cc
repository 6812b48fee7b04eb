#include "control/edit_text.h"

#include <algorithm>
#include <cstring>

namespace caisson::control {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

// In time that grows with the text alone, whatever is looked for.
std::size_t find(std::string_view text, std::string_view wanted, std::size_t from = 0) {
  if (from > text.size()) return text.npos;
  const void* at = ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return at == nullptr ? text.npos
                       : static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
}

// Without overlap.
std::uint64_t count(std::string_view text, std::string_view wanted) {
  if (wanted.empty())
    return static_cast<std::uint64_t>(std::ranges::count_if(text, begins_character)) + 1;
  std::uint64_t found = 0;
  for (std::size_t at = find(text, wanted); at != text.npos;
       at = find(text, wanted, at + wanted.size()))
    ++found;
  return found;
}

std::string with_lf(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n') continue;
    out += text[at];
  }
  return out;
}

std::string with_crlf(std::string_view text) {
  std::string out;
  for (const char c : with_lf(text)) {
    if (c == '\n') out += '\r';
    out += c;
  }
  return out;
}

std::string between_characters(std::string_view text, std::string_view added) {
  std::string out(added);
  while (!text.empty()) {
    std::size_t end = 1;
    while (end < text.size() && !begins_character(text[end])) ++end;
    out += text.substr(0, end);
    out += added;
    text.remove_prefix(end);
  }
  return out;
}

std::string replaced(std::string_view text, std::string_view old_text, std::string_view new_text) {
  if (old_text.empty()) return between_characters(text, new_text);
  std::string out;
  for (;;) {
    const std::size_t at = find(text, old_text);
    out += text.substr(0, at);
    if (at == text.npos) return out;
    out += new_text;
    text.remove_prefix(at + old_text.size());
  }
}

EditRefusal not_found(std::string_view text, std::string_view old_text) {
  if (!old_text.ends_with('\n')) return {};
  old_text.remove_suffix(old_text.ends_with("\r\n") ? 2 : 1);
  if (old_text.empty() || !text.ends_with(old_text)) return {};
  return {EditFault::LastLine, count(text, old_text)};
}

}  // namespace

std::expected<EditedText, EditRefusal> edit_text(std::string_view text, std::string old_text,
                                                 std::string new_text, EditScope scope) {
  using Convert = std::string (*)(std::string_view);
  EditedText out;
  out.occurrences = count(text, old_text);
  for (const Convert convert : {Convert(with_crlf), Convert(with_lf)}) {
    if (out.occurrences > 0) break;
    const std::string variant = convert(old_text);
    out.occurrences = count(text, variant);
    if (out.occurrences == 0) continue;
    old_text = variant;
    new_text = convert(new_text);
  }
  if (out.occurrences == 0) return std::unexpected(not_found(text, old_text));
  if (out.occurrences > 1 && scope == EditScope::One)
    return std::unexpected(EditRefusal{EditFault::Several, out.occurrences});
  // Neither factor is larger than 2^25, so the product is a number that fits.
  const std::uint64_t size = text.size() - out.occurrences * old_text.size() +
                             out.occurrences * std::uint64_t{new_text.size()};
  if (size > kEditBytesMax)
    return std::unexpected(EditRefusal{EditFault::TooLarge, out.occurrences});
  out.text = replaced(text, old_text, new_text);
  return out;
}

}  // namespace caisson::control
