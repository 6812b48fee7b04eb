#include "guest/init/glob.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace caisson::init {
namespace {

// A path below the start, as a walk would come to it.
bool matches(const std::string& pattern, std::string_view path) {
  Glob glob;
  EXPECT_TRUE(glob.parse(pattern.c_str())) << pattern;
  Glob::State state = glob.begin();
  for (;;) {
    const std::size_t slash = path.find('/');
    const std::string name(path.substr(0, slash));
    bool found = false;
    state = glob.step(state, name.c_str(), found);
    if (slash == std::string_view::npos) return found;
    if (state == 0) return false;
    path.remove_prefix(slash + 1);
  }
}

TEST(Glob, WhatMatchesNothing) {
  for (const char* pattern : {"", "/a", "./a", "a/", "../a", "a//b", ".", "..", "a/.", "[]", "[!]"})
    for (const char* path : {"a", "a/b", "b", ".a", "..."})
      EXPECT_FALSE(matches(pattern, path)) << pattern << " " << path;
}

TEST(Glob, StarsStayWithinAName) {
  EXPECT_TRUE(matches("*.py", "a.py"));
  EXPECT_TRUE(matches("*.py", ".py"));
  EXPECT_TRUE(matches("*", ".hidden"));
  EXPECT_FALSE(matches("*.py", "a/b.py"));
  EXPECT_FALSE(matches("*", "a/b"));
  EXPECT_TRUE(matches("*/*", "a/b"));
  EXPECT_TRUE(matches("a**b", "axyzb"));
  EXPECT_FALSE(matches("a**b", "a/b"));
  EXPECT_TRUE(matches("*a*b*c", "xxaxxbxxbc"));
  EXPECT_FALSE(matches("*a*b*c", "xxaxxbxxbcx"));
  EXPECT_FALSE(matches("a", "A"));
}

TEST(Glob, TwoStarsSpanNames) {
  EXPECT_TRUE(matches("**", "a"));
  EXPECT_TRUE(matches("**", "a/b/c"));
  EXPECT_TRUE(matches("**/*.py", "a.py"));
  EXPECT_TRUE(matches("**/*.py", "a/b/c.py"));
  EXPECT_TRUE(matches("a/**", "a/b"));
  EXPECT_TRUE(matches("a/**", "a/b/c"));
  EXPECT_FALSE(matches("a/**", "a"));
  EXPECT_TRUE(matches("a/**/**", "a/b"));
  EXPECT_FALSE(matches("a/**/**", "a"));
  EXPECT_TRUE(matches("a/**/b", "a/b"));
  EXPECT_TRUE(matches("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(matches("a/**/b", "a/x/y/c"));
  EXPECT_TRUE(matches("**/a/**/b", "x/a/y/a/b"));
  EXPECT_TRUE(matches("**/.git", "x/.git"));
}

TEST(Glob, AQuestionMarkIsOneCharacter) {
  EXPECT_TRUE(matches("?", "a"));
  EXPECT_TRUE(matches("?", "\xc3\xa4"));
  EXPECT_TRUE(matches("?", "\xf0\x9f\x98\x80"));
  EXPECT_FALSE(matches("?", "ab"));
  EXPECT_TRUE(matches("??", "\xc3\xc3"));  // no UTF-8: each byte counts
  EXPECT_TRUE(matches("?", "\n"));
}

TEST(Glob, SetsAsPythonReadsThem) {
  EXPECT_TRUE(matches("[abc]", "b"));
  EXPECT_FALSE(matches("[abc]", "d"));
  EXPECT_TRUE(matches("[!abc]", "d"));
  EXPECT_FALSE(matches("[!abc]", "a"));
  EXPECT_TRUE(matches("[a-c]x", "bx"));
  EXPECT_TRUE(matches("[]a]", "]"));
  EXPECT_TRUE(matches("[!]a]", "b"));
  EXPECT_FALSE(matches("[!]a]", "]"));
  EXPECT_TRUE(matches("[a-]", "-"));
  EXPECT_TRUE(matches("[-a]", "-"));
  EXPECT_TRUE(matches("[a-c-e]", "-"));
  EXPECT_TRUE(matches("[a-c-e]", "e"));
  EXPECT_FALSE(matches("[a-c-e]", "d"));
  EXPECT_FALSE(matches("[c-a]", "b"));
  EXPECT_FALSE(matches("[c-a]", "c"));
  EXPECT_TRUE(matches("[!c-a]", "b"));
  EXPECT_TRUE(matches("[^a]", "^"));
  EXPECT_FALSE(matches("[^a]", "b"));
  EXPECT_TRUE(matches("[\xc3\xa4-\xc3\xb6]", "\xc3\xa5"));
  EXPECT_TRUE(matches("[a", "[a"));  // not closed: itself
  EXPECT_TRUE(matches("a[", "a["));
  EXPECT_TRUE(matches("[a/b]", "[a/b]"));
  EXPECT_TRUE(matches("{a,b}", "{a,b}"));
  EXPECT_FALSE(matches("{a,b}", "a"));
  EXPECT_TRUE(matches("\\*", "\\x"));
}

TEST(Glob, SaysWhenNothingFurtherDownCanMatch) {
  Glob glob;
  bool found = false;
  ASSERT_TRUE(glob.parse("a/*"));
  EXPECT_EQ(glob.step(glob.begin(), "b", found), 0U);
  const Glob::State inside = glob.step(glob.begin(), "a", found);
  EXPECT_NE(inside, 0U);
  EXPECT_FALSE(found);
  EXPECT_EQ(glob.step(inside, "x", found), 0U);
  EXPECT_TRUE(found);
}

TEST(Glob, HasAsManyPartsAsFit) {
  std::string pattern = "a";
  for (std::size_t i = 1; i < Glob::kPartsMax; ++i) pattern += "/a";
  EXPECT_TRUE(matches(pattern, pattern));
  Glob glob;
  EXPECT_FALSE(glob.parse((pattern + "/a").c_str()));
  std::string stars = "**";
  for (int i = 0; i < 1000; ++i) stars += "/**";
  EXPECT_TRUE(matches(stars, "a"));
}

}  // namespace
}  // namespace caisson::init
