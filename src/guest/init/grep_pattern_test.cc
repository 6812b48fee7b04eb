#include "guest/init/grep_pattern.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace caisson::init {
namespace {

std::string needle(const std::string& pattern) {
  std::string out(2 * pattern.size() + 1, '\0');
  const Needle found = grep_needle(pattern.c_str(), out.data());
  return (found.whole ? "=" : "") + out.substr(0, found.size);
}

TEST(GrepPattern, PlainPatternsAreTheirOwnNeedle) {
  EXPECT_EQ(needle("import"), "=import");
  EXPECT_EQ(needle("def f"), "=def f");
  EXPECT_EQ(needle("a\\.b\\(c\\)"), "=a.b(c)");
  EXPECT_EQ(needle("\xc3\xa4"), "=\xc3\xa4");
  EXPECT_EQ(needle("-x"), "=-x");
  EXPECT_EQ(needle("}]"), "=}]");
}

TEST(GrepPattern, TheLongestRunThatEveryMatchHas) {
  EXPECT_EQ(needle("^import .*x"), "import ");
  EXPECT_EQ(needle("ab*cd"), "cd");
  EXPECT_EQ(needle("ab+cd"), "ab");
  EXPECT_EQ(needle("abc+de"), "abc");
  EXPECT_EQ(needle("ab?"), "a");
  EXPECT_EQ(needle("ab{0,3}cde"), "cde");
  EXPECT_EQ(needle("ab{2}+*c"), "a");
  EXPECT_EQ(needle("[abc]hello[^]x]ok"), "hello");
  EXPECT_EQ(needle("[[:alpha:]]x"), "x");
  EXPECT_EQ(needle("[[.].]]x"), "x");
  EXPECT_EQ(needle("(foo|bar)baz"), "baz");
  EXPECT_EQ(needle("(foo)?ba"), "ba");
  EXPECT_EQ(needle("(a[)]b\\))cd"), "cd");
  EXPECT_EQ(needle("\\bword\\b"), "word");
  EXPECT_EQ(needle("\\<word\\>"), "word");
  EXPECT_EQ(needle("a\\.b*"), "a.");
  EXPECT_EQ(needle("x\xc3\xa4*y"), "x");
}

TEST(GrepPattern, NoNeedleWhereThereIsNone) {
  for (const char* pattern : {"", "a|b", "abc|", "|abc", ".*", "[abc]", "(abc)", "a*", "^$", "(abc",
                              "[abc", "\\w+", "a?", "\\x41bc"})
    EXPECT_EQ(needle(pattern), "") << pattern;
}

TEST(GrepPattern, KnowsText) {
  EXPECT_TRUE(is_utf8("", 0));
  EXPECT_TRUE(is_utf8("plain", 5));
  EXPECT_TRUE(is_utf8("\xf4\x8f\xbf\xbf", 4));
  for (const char* bad : {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xff", "a\xe4 b", "\xe2\x82"})
    EXPECT_FALSE(is_utf8(bad, std::strlen(bad))) << bad;
}

TEST(GrepPattern, CutsBetweenCharacters) {
  const std::string text =
      "ab\xe2\x82\xac"
      "d";
  EXPECT_EQ(cut_at(text.data(), text.size(), 6), 6U);
  EXPECT_EQ(cut_at(text.data(), text.size(), 5), 5U);
  EXPECT_EQ(cut_at(text.data(), text.size(), 4), 2U);
  EXPECT_EQ(cut_at(text.data(), text.size(), 3), 2U);
  EXPECT_EQ(cut_at(text.data(), text.size(), 2), 2U);
  const std::string bytes(20, '\x80');
  EXPECT_EQ(cut_at(bytes.data(), bytes.size(), 10), 10U);
}

}  // namespace
}  // namespace caisson::init
