// Every expectation here was read off Python 3.11.
#include "doors/daiv/python_text.h"

#include <gtest/gtest.h>

#include <vector>

namespace caisson::daiv {
namespace {

constexpr std::string_view kFffd = "\xEF\xBF\xBD";

std::string times(std::string_view text, int count) {
  std::string out;
  while (count-- > 0) out += text;
  return out;
}

TEST(LossyUtf8, ReplacesMaximalParts) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"\xff", times(kFffd, 1)},
      {"\xe2\x82", times(kFffd, 1)},
      {"\xe2\x82"
       "a",
       std::string(kFffd) + "a"},
      {"\xf0\x9f\x98", times(kFffd, 1)},
      {"\xf0\x9f\x98x", std::string(kFffd) + "x"},
      {"\xc0\xaf", times(kFffd, 2)},
      {"\xed\xa0\x80", times(kFffd, 3)},
      {"\xf4\x90\x80\x80", times(kFffd, 4)},
      {"\xe2(\xa1", std::string(kFffd) + "(" + std::string(kFffd)},
      {"a\x80"
       "b",
       "a" + std::string(kFffd) + "b"},
      {"\xf0\x80\x80\x80", times(kFffd, 4)},
      {"\xe2\xe2\x82\xac", std::string(kFffd) + "\xe2\x82\xac"},
      {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
      {"", ""},
  };
  for (const auto& [bytes, text] : table) {
    EXPECT_EQ(lossy_utf8(bytes), text);
    EXPECT_EQ(is_utf8(bytes), bytes == text);
    std::string slowly;  // however it is cut
    LossyUtf8 decoder;
    for (const char c : bytes) decoder.feed({&c, 1}, slowly);
    decoder.finish(slowly);
    EXPECT_EQ(slowly, text);
  }
}

struct Lines {
  std::uint64_t total = 0;
  std::string content;
};

Lines window(std::string_view text, std::uint64_t offset, std::uint64_t limit, std::size_t step) {
  LineWindow out(offset, limit, 1000);
  for (std::size_t at = 0; at < text.size(); at += step) out.feed(text.substr(at, step));
  out.finish();
  return {out.lines(), out.content()};
}

TEST(LineWindow, CutsWhereSplitlinesDoes) {
  const std::string text =
      "a\nb\r\nc\rd\ve\ff\x1cg\x1dh\x1ei\xc2\x85j\xe2\x80\xa8k\xe2\x80\xa9\xc3\xa9\xc2\xa0\xe2\x82"
      "\xac";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    const Lines lines = window(text, 0, 100, step);
    EXPECT_EQ(lines.total, 12U) << step;
    EXPECT_EQ(lines.content, "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n\xc3\xa9\xc2\xa0\xe2\x82\xac")
        << step;
  }
  for (const auto& [one, total] :
       std::vector<std::pair<std::string, std::uint64_t>>{{"", 0},
                                                          {"a", 1},
                                                          {"a\n", 1},
                                                          {"\n", 1},
                                                          {"\n\n", 2},
                                                          {"\r\n", 1},
                                                          {"\r\r\n", 2},
                                                          {"\n\r", 2},
                                                          {"a\n\nb", 3},
                                                          {"\xe2\x80", 1},
                                                          {"\xc2", 1}}) {
    EXPECT_EQ(window(one, 0, 100, 1).total, total) << one;
  }
}

TEST(LineWindow, KeepsTheWindowOnly) {
  const std::string text = "0\n1\n\n3\n4\n";
  EXPECT_EQ(window(text, 1, 3, 2).content, "1\n\n3");
  EXPECT_EQ(window(text, 2, 1, 2).content, "");
  EXPECT_EQ(window(text, 4, 9, 2).content, "4");
  EXPECT_EQ(window(text, 5, 9, 2).content, "");
  EXPECT_EQ(window(text, 5, 9, 2).total, 5U);
}

TEST(LineWindow, HoldsNoMoreThanItMay) {
  LineWindow out(0, UINT64_MAX, 10);
  for (int i = 0; i < 1000; ++i) out.feed("abc\n");
  out.finish();
  EXPECT_EQ(out.lines(), 1000U);
  EXPECT_EQ(out.content().size(), 11U);
  EXPECT_TRUE(out.overflowed());
}

TEST(PythonText, ShowsStringsAsReprDoes) {
  EXPECT_EQ(python_repr("/a b"), "'/a b'");
  EXPECT_EQ(python_repr("it's"), "\"it's\"");
  EXPECT_EQ(python_repr("it's \"x\""), "'it\\'s \"x\"'");
  EXPECT_EQ(python_repr(std::string_view("a\0\n\r\t\\\x7f", 7)), "'a\\x00\\n\\r\\t\\\\\\x7f'");
}

}  // namespace
}  // namespace caisson::daiv
