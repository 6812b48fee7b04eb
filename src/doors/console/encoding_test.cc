// What a client takes, by its own words, and a file made plain again.
#include "doors/console/encoding.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "doors/console/gzip_test.h"

namespace caisson::console {
namespace {

TEST(Encoding, GzipIsTakenByNameOrByStar) {
  for (const std::string_view yes :
       {"gzip", "GZip", "gzip, deflate, br", "br;q=1.0, gzip;q=0.5", "*", "br, *;q=0.1",
        "gzip;q=0.001", " deflate ,\tgzip ", "*;q=0, gzip"}) {
    EXPECT_TRUE(takes_gzip(yes)) << yes;
  }
  for (const std::string_view no : {"", "br", "identity", "gzip;q=0", "gzip; q=0.000", "*;q=0",
                                    "gzip;Q=0, *", "xgzip", "gzipx", ",,;", "deflate;gzip"}) {
    EXPECT_FALSE(takes_gzip(no)) << no;
  }
}

TEST(Encoding, AnEtagIsComparedWhole) {
  EXPECT_TRUE(has_etag(R"("a")", R"("a")"));
  EXPECT_TRUE(has_etag(R"("b", W/"a")", R"("a")"));
  EXPECT_TRUE(has_etag("*", R"("a")"));
  EXPECT_FALSE(has_etag("", R"("a")"));
  EXPECT_FALSE(has_etag("a", R"("a")"));
  EXPECT_FALSE(has_etag(R"("ab", "a-gzip")", R"("a")"));
}

std::string inflated(std::string_view gzip, std::size_t piece) {
  Inflater inflater(std::as_bytes(std::span(gzip)));
  std::string text;
  std::string buffer(piece, '\0');
  for (;;) {
    const auto made = inflater.next(std::as_writable_bytes(std::span(buffer)));
    if (!made) return "failed: " + made.error().message;
    if (*made == 0) return text;
    text.append(buffer, 0, *made);
  }
}

TEST(Inflater, GivesTheSameBytesInAnyPieces) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::string gzip = gzipped(text);
  for (const std::size_t piece : {1UL, 7UL, 4096UL, 1UL << 20}) {
    EXPECT_EQ(inflated(gzip, piece), text) << piece;
  }
  EXPECT_EQ(inflated(gzipped(""), 10), "");
}

TEST(Inflater, SaysWhatIsDamaged) {
  const std::string gzip = gzipped(std::string(10000, 'x'));
  EXPECT_TRUE(inflated("no gzip", 100).starts_with("failed: ")) << "not gzip";
  EXPECT_TRUE(inflated(gzip.substr(0, gzip.size() - 9), 1 << 20).ends_with("cut off") ||
              inflated(gzip.substr(0, gzip.size() - 9), 1 << 20).ends_with("damaged"));
  EXPECT_TRUE(inflated("", 100).starts_with("failed: "));
}

}  // namespace
}  // namespace caisson::console
