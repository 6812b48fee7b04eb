#include "doors/daiv/edit_text.h"

#include <gtest/gtest.h>

namespace caisson::daiv {
namespace {

// The new text and how often, or the code and the message.
std::string edited(std::string_view text, std::string old_text, std::string new_text,
                   bool all = false) {
  const auto out = edit_text(text, std::move(old_text), std::move(new_text), all);
  if (!out) return std::string(out.error().code) + ": " + out.error().message;
  return std::to_string(out->occurrences) + " " + out->text;
}

TEST(EditText, ReplacesOneOrAll) {
  EXPECT_EQ(edited("a b c", "b", "x"), "1 a x c");
  EXPECT_EQ(edited("b b", "b", "x", true), "2 x x");
  EXPECT_EQ(edited("aaa", "aa", "b", true), "1 ba") << "without overlap";
  EXPECT_EQ(edited("abc", "b", ""), "1 ac");
  EXPECT_EQ(edited("b b", "b", "x"),
            "multiple_occurrences: String appears 2 times in file. Use replace_all=True to replace "
            "all instances, or provide a more specific string with surrounding context.");
  EXPECT_EQ(edited("abc", "x", "y"), "string_not_found: string_not_found");
}

TEST(EditText, TriesOtherLineEnds) {
  EXPECT_EQ(edited("a\r\nb\r\n", "a\nb", "x\ny"), "1 x\r\ny\r\n");
  EXPECT_EQ(edited("a\nb\n", "a\r\nb", "x\r\ny"), "1 x\ny\n");
  EXPECT_EQ(edited("a\nb\r\nc", "a\nb", "x\ny"), "1 x\ny\r\nc") << "literally first";
}

TEST(EditText, HintsAtTheLastLine) {
  EXPECT_EQ(edited("a\nb", "b\n", "c\n"),
            "string_not_found: old_string ends with a newline, but the file does not end with a "
            "newline. Retry with the trailing newline removed from old_string (and from new_string "
            "if it also ends with a newline).");
  EXPECT_EQ(edited("b\nab", "b\n\n", "c"), "string_not_found: string_not_found");
  EXPECT_EQ(
      edited("bxb", "b\n", "c"),
      "string_not_found: old_string ends with a newline, but the file does not end with a "
      "newline. With the trailing newline removed, old_string would appear 2 times in the "
      "file. Retry with the trailing newline removed and add surrounding context so the match "
      "is unique.");
  EXPECT_EQ(edited("a", "\n", "c"), "string_not_found: string_not_found");
}

TEST(EditText, TakesAnEmptyTextAsPythonDoes) {
  EXPECT_EQ(edited("", "", "x"), "1 x");
  EXPECT_EQ(edited("\xc3\xa9"
                   "b",
                   "", "-", true),
            "3 -\xc3\xa9-b-");
  EXPECT_EQ(edited("ab", "", "x").substr(0, 20), "multiple_occurrences");
}

TEST(EditText, HasALimit) {
  const std::string text(1024, 'a');
  EXPECT_EQ(edited(text, "a", std::string(kEditBytesMax / 1024 + 1, 'b'), true).substr(0, 9),
            "too_large");
  EXPECT_EQ(edit_text(text, "a", std::string(kEditBytesMax / 1024, 'b'), true)->text.size(),
            kEditBytesMax);
}

}  // namespace
}  // namespace caisson::daiv
