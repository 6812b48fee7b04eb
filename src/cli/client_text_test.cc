#include "cli/client_text.h"

#include <gtest/gtest.h>

#include "cli/client_json.h"
#include "cli/client_progress.h"
#include "cli/client_top.h"

namespace caisson::cli {
namespace {

// A sandbox may be named anything: nothing of it may move a cursor, set a title or turn the line.
TEST(Shown, NothingThatActsOnATerminalIsLeft) {
  EXPECT_EQ(shown("a\x1b[2Jb"), "a?[2Jb");
  EXPECT_EQ(shown("a\nb\r\tc\x7f"), "a?b??c?");
  EXPECT_EQ(shown("\xc2\x9b"
                  "31m"),
            "?31m");  // CSI in one character
  EXPECT_EQ(shown("a\xe2\x80\xae"
                  "cba"),
            "a?cba");  // right-to-left override
  EXPECT_EQ(shown("a\xe2\x80\xa8"
                  "b"),
            "a?b");  // line separator
  EXPECT_EQ(shown("\xff\xc3(\xed\xa0\x80"),
            "?"
            "?("
            "?"
            "?"
            "?");  // not UTF-8
  EXPECT_EQ(shown(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(shown("grün 水 🦀"), "grün 水 🦀");
}

TEST(Shown, IsCutByCharacters) {
  EXPECT_EQ(shown("abcdef", 6), "abcdef");
  EXPECT_EQ(shown("abcdefg", 6), "abcde…");
  EXPECT_EQ(shown("ääää", 3), "ää…");
  EXPECT_EQ(shown(std::string(1'000'000, 'x')).size(), kCellMax - 1 + std::string("…").size());
  EXPECT_EQ(shown("ab", 0), "…");
}

TEST(Table, ColumnsAreAlignedAndLinesHaveNoTail) {
  Table table({"ID", "NAME", "X"});
  table.add({"a", "grün", ""});
  table.add({"bcd", "\n", "last", "too many"});
  EXPECT_EQ(table.text(),
            "ID   NAME  X\n"
            "a    grün  -\n"
            "bcd  ?     last\n");
  EXPECT_EQ(Table({"ONE"}).text(), "ONE\n");
}

TEST(Age, IsShort) {
  EXPECT_EQ(age_text(-5), "0s");
  EXPECT_EQ(age_text(0.4), "0s");
  EXPECT_EQ(age_text(89.9), "89s");
  EXPECT_EQ(age_text(200), "3m");
  EXPECT_EQ(age_text(7200), "2h");
  EXPECT_EQ(age_text(4 * 86400.0), "4d");
  EXPECT_EQ(age_text(1e300), "11574074d");
}

TEST(Size, IsShort) {
  EXPECT_EQ(size_text(0), "0B");
  EXPECT_EQ(size_text(1023), "1023B");
  EXPECT_EQ(size_text(1536), "1.5K");
  EXPECT_EQ(size_text(64ULL << 20U), "64M");
  EXPECT_EQ(size_text(~0ULL), "16E");
}

TEST(Time, IsReadStrictly) {
  EXPECT_DOUBLE_EQ(*parse_time("1970-01-01T00:00:01.5Z"), 1.5);
  EXPECT_DOUBLE_EQ(*parse_time("2026-01-31T08:20:23Z"), 1769847623);
  for (const char* text :
       {"", "2026-01-31", "2026-01-31T08:20:23", "2026-01-31T08:20:23.Z", "2026-01-31T08:20:2xZ",
        "2026-01-31T08:20:23.1x3Z", "2026-01-31 08:20:23Z"})
    EXPECT_FALSE(parse_time(text)) << text;
}

TEST(ShellWord, ReadsBackAsItWas) {
  EXPECT_EQ(shell_word("ls"), "ls");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
  const std::string words[] = {"sh", "-c", "echo $HOME; id"};
  EXPECT_EQ(shell_line(words), "sh -c 'echo $HOME; id'");
}

TEST(Json, MissingAndWrongFieldsAreEmpty) {
  const auto value = *parse_json(R"({"a": "x", "n": 3.5, "big": 18446744073709551615, "neg": -1})");
  EXPECT_EQ(text_at(value, "a"), "x");
  EXPECT_EQ(text_at(value, "n"), "");
  EXPECT_EQ(text_at(boost::json::value(5), "a"), "");
  EXPECT_DOUBLE_EQ(number_at(value, "n"), 3.5);
  EXPECT_EQ(count_at(value, "n"), 3U);
  EXPECT_EQ(count_at(value, "big"), ~0ULL);
  EXPECT_EQ(count_at(value, "neg"), 0U);
  EXPECT_TRUE(list_at(value, "a").empty());
  EXPECT_TRUE(field_at(value, "none").is_null());
  EXPECT_FALSE(parse_json("{"));
  EXPECT_FALSE(parse_json(std::string(100'000, '[')));
}

TEST(Json, PrettyIsTheSameJsonWithoutControlCharacters) {
  const auto value = *parse_json(
      "{\"a\": [1, 2.5, true, null], \"b\": {}, \"c\": \"\\u001b\\u007f\xc2\x9bü\", \"d\": []}");
  const std::string text = pretty(value);
  EXPECT_EQ(text,
            "{\n  \"a\": [\n    1,\n    2.5,\n    true,\n    null\n  ],\n  \"b\": {},\n"
            "  \"c\": \"\\u001b\\u007f\\u009bü\",\n  \"d\": []\n}\n");
  EXPECT_EQ(*parse_json(text), value);
}

TEST(Progress, LineFitsAndSaysHowMuch) {
  EXPECT_EQ(progress_line("a.bin", 512, 1024, 1, 100),
            "a.bin  [##########----------]  50%  512B of 1.0K  512B/s");
  EXPECT_EQ(progress_line("a", 2048, std::nullopt, 0, 100), "a  2.0K  0B/s");
  EXPECT_EQ(progress_line("a\x1b", 5, 4, 1, 12).find('\x1b'), std::string::npos);
  EXPECT_NE(progress_line("a", 5, 4, 1, 100).find("100%"), std::string::npos);
}

TopRow row(const char* id, double cpu, double wall) {
  return {{{"id", id}, {"name", ""}, {"state", "running"}},
          {{"cpu_seconds", cpu}, {"wall_seconds", wall}, {"memory_bytes", 1024}}};
}

TEST(Top, TheBusiestBetweenTwoLooksComesFirst) {
  CpuMarks marks;
  const std::string first = top_table({row("a", 10, 100), row("b", 1, 100)}, marks, 0);
  EXPECT_LT(first.find("\na "), first.find("\nb "));
  const std::string second = top_table({row("a", 10, 101), row("b", 1.5, 101)}, marks, 0);
  EXPECT_LT(second.find("\nb "), second.find("\na "));
  EXPECT_NE(second.find("50.0"), std::string::npos);
  EXPECT_EQ(marks.size(), 2U);
  (void)top_table({}, marks, 0);
  EXPECT_TRUE(marks.empty());  // those that are gone are forgotten
}

}  // namespace
}  // namespace caisson::cli
