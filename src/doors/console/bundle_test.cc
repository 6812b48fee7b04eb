// The files that the program carries, and the table in front of them.
#include "doors/console/bundle.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::console {
namespace {

constexpr std::string_view kFirst = "caisson console 1\n";

std::string line(std::string_view path, std::size_t plain, std::size_t gzip) {
  return std::string(path) + "\ttext/plain\tpage\tabcd\t" + std::to_string(plain) + "\t" +
         std::to_string(gzip) + "\n";
}

std::string why(const std::string& text) {
  const auto read = Bundle::read(text);
  return read ? "it was read" : read.error().message;
}

TEST(Bundle, FindsFilesByTheirWholePath) {
  const std::string text =
      std::string(kFirst) + line("/b", 10, 3) + "/a\ttext/css\thashed\tef\t7\t2\n\nBBBAA";
  const auto bundle = Bundle::read(text);
  ASSERT_TRUE(bundle) << bundle.error().message;
  const Asset* found = bundle->find("/a");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->type, "text/css");
  EXPECT_EQ(found->digest, "ef");
  EXPECT_TRUE(found->immutable);
  EXPECT_EQ(found->plain_bytes, 7U);
  EXPECT_EQ(found->gzip.size(), 2U);
  EXPECT_EQ(found->gzip.front(), std::byte{'A'});
  EXPECT_FALSE(bundle->find("/b")->immutable);
  for (const std::string_view path : {"", "/", "/A", "/aa", "a", "/a/", "/b/../a"}) {
    EXPECT_EQ(bundle->find(path), nullptr) << path;
  }
}

TEST(Bundle, RefusesWhatIsDamaged) {
  const std::string first(kFirst);
  EXPECT_NE(why("").find("not a bundle"), std::string::npos);
  EXPECT_NE(why("caisson console 2\n\n").find("not a bundle"), std::string::npos);
  EXPECT_NE(why(first).find("no end"), std::string::npos);
  EXPECT_NE(why(first + "/a\n\n").find("cannot read '/a'"), std::string::npos);
  EXPECT_NE(why(first + line("a", 1, 1) + "\nA").find("cannot read"), std::string::npos);
  EXPECT_NE(why(first + line("/a", 1, 2) + "\nA").find("cut off"), std::string::npos);
  EXPECT_NE(why(first + line("/a", 1, 1) + "\nAA").find("more bytes"), std::string::npos);
  EXPECT_NE(why(first + "/a\tx\tpage\tff\t1\t-1\n\nA").find("cannot read"), std::string::npos);
}

TEST(Bundle, HasLimits) {
  const std::string first(kFirst);
  EXPECT_NE(why(first + line("/a", kPlainBytesMax + 1, 0) + "\n").find("cannot read"),
            std::string::npos);
  std::string most = first;
  for (std::size_t i = 0; i < kFilesMax; ++i) most += line("/" + std::to_string(i), 0, 0);
  EXPECT_TRUE(Bundle::read(most + "\n"));
  EXPECT_NE(why(most + line("/one-more", 0, 0) + "\n").find("too many"), std::string::npos);
}

TEST(Bundle, OfTheProgramHasAPage) {
  const auto bundle = Bundle::read(embedded_bundle());
  ASSERT_TRUE(bundle) << bundle.error().message;
  const Asset* page = bundle->find("/index.html");
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(page->type, "text/html; charset=utf-8");
  EXPECT_FALSE(page->immutable) << "its name stays when its content changes";
}

}  // namespace
}  // namespace caisson::console
