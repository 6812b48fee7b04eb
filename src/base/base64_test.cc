#include "base/base64.h"

#include <gtest/gtest.h>

namespace caisson {
namespace {

TEST(Base64, BothWays) {
  for (const std::string text : {"", "a", "ab", "abc", "abcd", "\xff\xfe\xfd"}) {
    EXPECT_EQ(from_base64(to_base64(text)), text);
  }
  EXPECT_EQ(to_base64("hello\n"), "aGVsbG8K");
  EXPECT_EQ(from_base64("AP8="), std::string("\0\xff", 2));
  for (const auto* bad :
       {"a", "ab", "abc", "a===", "====", "ab!=", "YQ", "YR==", "YWJ=", "Y Q=="}) {
    EXPECT_FALSE(from_base64(bad)) << bad;
  }
}

}  // namespace
}  // namespace caisson
