#include "doors/sandboxer/words.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace caisson::sandboxer {
namespace {

RowPtr row(Rows& rows, std::string id, std::string label, std::string parent, int created,
           bool living = true) {
  auto made = std::make_shared<Row>();
  made->id = std::move(id);
  made->name = "n" + made->id;
  made->tenant = "t";
  made->label = std::move(label);
  made->parent = std::move(parent);
  made->created = created;
  if (!living) made->deleted_at = created + 1;
  rows.add(made);
  return made;
}

std::vector<std::string> lines_of(const std::vector<std::string_view>& pieces) {
  std::vector<std::string> out;
  LineSplitter splitter;
  const auto take = [&out](std::string line) { out.push_back(std::move(line)); };
  for (const auto piece : pieces) splitter.feed(piece, take);
  splitter.finish(take);
  return out;
}

TEST(Words, TheHostnameOfAForkIsItsParentsAndItsLabel) {
  EXPECT_EQ(fork_hostname("fdf22fbb7984", "fk a!b"), "fdf22fbb7984-fk-a-b");
  EXPECT_EQ(fork_hostname("a", "Deep  --  Fork!!"), "a-deep-fork");
  EXPECT_EQ(fork_hostname("a", "ü"), "a");
  EXPECT_EQ(fork_hostname("a", ""), "a");
}

TEST(Words, AHostnameIsNeverTooLong) {
  const std::string long_one = fork_hostname(std::string(60, 'a'), "bc defg");
  EXPECT_EQ(long_one, std::string(60, 'a') + "-bc");
  EXPECT_EQ(fork_hostname(std::string(62, 'a'), "b"), std::string(62, 'a'));
  EXPECT_LE(fork_hostname(std::string(63, 'a'), "b").size(), kHostnameMax);
}

TEST(Words, ATreeIsDrawnAsTheOriginalDrawsIt) {
  Rows rows;
  const auto top = row(rows, "1", "root", "", 1);
  row(rows, "2", "left", "1", 2);
  row(rows, "3", "below left", "2", 3, false);
  row(rows, "4", "right", "1", 4);
  row(rows, "5", "below right", "4", 5);
  EXPECT_EQ(tree_text(rows, top),
            "📦 root [1]\n"
            "    ├── 📦 left [2]\n"
            "    │   └── 💀 DEAD 📦 below left [3]\n"
            "    └── 📦 right [4]\n"
            "        └── 📦 below right [5]");
}

TEST(Words, ATreeAsJsonHasItsChildrenInOrder) {
  Rows rows;
  const auto top = row(rows, "1", "a \"label\"", "", 1);
  row(rows, "2", "left", "1", 2);
  row(rows, "3", "right", "1", 3, false);
  row(rows, "4", "below", "2", 4);
  EXPECT_EQ(tree_json(rows, top),
            R"({"id":"1","label":"a \"label\"","status":"running","children":[)"
            R"({"id":"2","label":"left","status":"running","children":[)"
            R"({"id":"4","label":"below","status":"running","children":[]}]},)"
            R"({"id":"3","label":"right","status":"terminated","children":[]}]})");
}

TEST(Words, AVeryDeepTreeEndsSomewhere) {
  Rows rows;
  const auto top = row(rows, "0", "x", "", 0);
  for (int i = 1; i < 9000; ++i) row(rows, std::to_string(i), "x", std::to_string(i - 1), i);
  const std::string text = tree_text(rows, top);
  EXPECT_GT(text.size(), kTreeBytesMax);
  EXPECT_LT(text.size(), kTreeBytesMax + 100'000);
  EXPECT_FALSE(tree_json(rows, top).empty());
}

TEST(Words, AVeryLongTreeAsJsonEndsSomewhere) {
  Rows rows;
  const auto top = row(rows, "0", "x", "", 0);
  const std::string label(kLabelBytesMax, 'l');
  for (int i = 1; i < 6000; ++i) row(rows, std::to_string(i), label, std::to_string(i - 1), i);
  const std::string text = tree_json(rows, top);
  EXPECT_LT(text.size(), kTreeBytesMax + 4 * kLabelBytesMax + 6000 * 2);
  EXPECT_TRUE(text.ends_with("]}"));
}

TEST(Words, LinesAreWholeAndKeepTheirInside) {
  EXPECT_EQ(lines_of({"a\nb", "c\r\n", " d \n\ne"}),
            (std::vector<std::string>{"a", "bc", " d ", "", "e"}));
  EXPECT_EQ(lines_of({}), std::vector<std::string>{});
  EXPECT_EQ(lines_of({"\n"}), std::vector<std::string>{""});
}

TEST(Words, ACharacterInTwoPiecesIsOne) {
  EXPECT_EQ(lines_of({"\xE2\x82", "\xAC\n"}), std::vector<std::string>{"€"});
  EXPECT_EQ(lines_of({"a\xFF\n\xE2"}), (std::vector<std::string>{"a\uFFFD", "\uFFFD"}));
}

TEST(Words, AVeryLongLineIsSentInPartsOfWholeCharacters) {
  std::string text;
  while (text.size() < kLineBytesMax + 10) text += "€";
  const auto lines = lines_of({text, "\n"});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_LE(lines[0].size(), kLineBytesMax);
  EXPECT_EQ(lines[0] + lines[1], text);
  EXPECT_TRUE(doors::is_utf8(lines[0]));
}

TEST(Words, HalfACharacterAtTheEndIsFound) {
  EXPECT_EQ(unfinished_bytes(""), 0U);
  EXPECT_EQ(unfinished_bytes("abc"), 0U);
  EXPECT_EQ(unfinished_bytes("€"), 0U);
  EXPECT_EQ(unfinished_bytes("a\xE2"), 1U);
  EXPECT_EQ(unfinished_bytes("a\xE2\x82"), 2U);
  EXPECT_EQ(unfinished_bytes("\xF0\x9F\x92"), 3U);
  EXPECT_EQ(unfinished_bytes("\x82\x82\x82\x82"), 0U);
}

TEST(Words, WhiteSpaceIsTakenOffBothEndsOnly) {
  Trimmer trimmer;
  std::string out;
  for (const auto piece : {" \n", " a ", " \n ", "b\n", "\n"}) trimmer.feed(piece, out);
  EXPECT_EQ(out, "a  \n b");
}

TEST(Words, OfWhiteSpaceOnlySoMuchIsHeldBack) {
  Trimmer trimmer;
  std::string out;
  trimmer.feed("a", out);
  trimmer.feed(std::string(kLineBytesMax + 1, ' '), out);
  EXPECT_EQ(out.size(), kLineBytesMax + 2);
}

TEST(Words, APathNeverLeadsUp) {
  EXPECT_EQ(absolute_path(""), "/");
  EXPECT_EQ(absolute_path("etc//./passwd/"), "/etc/passwd");
  EXPECT_EQ(absolute_path("/etc"), "/etc");
  EXPECT_EQ(absolute_path("../etc/shadow"), std::nullopt);
  EXPECT_EQ(absolute_path("a/../b"), std::nullopt);
  EXPECT_EQ(absolute_path("a/..b"), "/a/..b");
}

TEST(Words, AContentTypeFollowsFromTheEnding) {
  EXPECT_EQ(content_type("a.txt"), "text/plain; charset=utf-8");
  EXPECT_EQ(content_type("A.PNG"), "image/png");
  EXPECT_EQ(content_type("Makefile"), "application/octet-stream");
  EXPECT_EQ(content_type(".html"), "application/octet-stream");
}

TEST(Words, ANameOfAFileCannotEndItsHeader) {
  EXPECT_EQ(attachment("a b.txt"), "attachment; filename=\"a b.txt\"");
  EXPECT_EQ(attachment("a\"\r\nX: y"),
            "attachment; filename=\"a___X: y\"; filename*=UTF-8''a%22%0D%0AX%3A%20y");
  EXPECT_EQ(attachment("ü"), "attachment; filename=\"__\"; filename*=UTF-8''%C3%BC");
}

TEST(Words, AUlidKnowsItsTime) {
  const store::WallTime now = 1'746'600'000'123'000;
  const auto one = fresh_ulid(now);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->size(), 26U);
  EXPECT_EQ(ulid_time(*one), now);
  EXPECT_NE(*one, *fresh_ulid(now));
  EXPECT_LT(*fresh_ulid(now - 1000), *one);
  EXPECT_EQ(ulid_time("short"), std::nullopt);
  EXPECT_EQ(ulid_time("8zzzzzzzzzzzzzzzzzzzzzzzzz"), std::nullopt);
  EXPECT_EQ(ulid_time("01jtabcdefghjkmnpqrstvwxyu"), std::nullopt);  // no 'u' among its letters
}

TEST(Words, ATimeOfSomebodyElseIsBounded) {
  EXPECT_EQ(wall_of(1.5), 1'500'000);
  EXPECT_EQ(wall_of(-1), 0);
  EXPECT_EQ(wall_of(1e300), wall_of(1e200));
}

}  // namespace
}  // namespace caisson::sandboxer
