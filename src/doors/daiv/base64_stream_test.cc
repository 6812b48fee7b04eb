// Every expectation here was read off Python 3.11.
#include "doors/daiv/base64_stream.h"

#include <gtest/gtest.h>

namespace caisson::daiv {
namespace {

std::string decoded(std::string_view text) {
  std::string at_once;
  Base64Stream stream;
  stream.feed(text, at_once);
  std::string slowly;
  Base64Stream second;
  for (const char c : text) second.feed({&c, 1}, slowly);
  EXPECT_EQ(slowly, at_once);
  EXPECT_EQ(stream.finish(), second.finish());
  return stream.finish().value_or("=" + at_once);
}

TEST(Base64Stream, IsAsLenientAsTheOriginal) {
  EXPECT_EQ(decoded("***"), "=");
  EXPECT_EQ(decoded(""), "=");
  EXPECT_EQ(decoded("QQ=="), "=A");
  EXPECT_EQ(decoded("QUI="), "=AB");
  EXPECT_EQ(decoded("QUJD"), "=ABC");
  EXPECT_EQ(decoded("Q Q\n=="), "=A");
  EXPECT_EQ(decoded("QQ==QUJD"), "=A");
  EXPECT_EQ(decoded("===="), "=");
  EXPECT_EQ(decoded("="), "=");
  EXPECT_EQ(decoded("-_"), "=");
  EXPECT_EQ(decoded("QUJDRA==x"), "=ABCD");
  EXPECT_EQ(decoded("QUJ=D"), "=AB");
  EXPECT_EQ(decoded("QQ="), "Incorrect padding");
  EXPECT_EQ(decoded("QQ"), "Incorrect padding");
  EXPECT_EQ(decoded("Q=Q="), "Incorrect padding");
  EXPECT_EQ(decoded("QUJDRAx"), "Incorrect padding");
  EXPECT_EQ(decoded("Q"),
            "Invalid base64-encoded string: number of data characters (1) cannot be 1 more than a "
            "multiple of 4");
  EXPECT_EQ(decoded("QUJDR"),
            "Invalid base64-encoded string: number of data characters (5) cannot be 1 more than a "
            "multiple of 4");
}

TEST(Base64Stream, KnowsEveryByte) {
  std::string out;
  Base64Stream stream;
  stream.feed("AAECA/z9/v8=", out);
  EXPECT_EQ(out, std::string("\x00\x01\x02\x03\xfc\xfd\xfe\xff", 8));
}

}  // namespace
}  // namespace caisson::daiv
