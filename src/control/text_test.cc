#include "control/text.h"

#include <gtest/gtest.h>

namespace caisson::control {
namespace {

TEST(Text, KnowsUtf8) {
  for (const std::string_view good : {"", "abc", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"})
    EXPECT_TRUE(is_utf8(good));
  for (const std::string_view bad : {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80",
                                     "\xF4\x90\x80\x80", "\xFF", "a\xC3z"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(Text, RepairsWhatIsNotUtf8) {
  EXPECT_EQ(to_utf8("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_TRUE(is_utf8(to_utf8("\xE2\x82 \xF0\x9F")));
  EXPECT_EQ(cut_text("ab\xC3\xA4", 3), "ab");
  EXPECT_EQ(cut_text("ab\xC3\xA4", 4), "ab\xC3\xA4");
}

TEST(Text, Base64GoesBothWays) {
  for (const std::string_view bytes : {"", "f", "fo", "foo", "foob", "fooba", "foobar", "\xff\xfe"})
    EXPECT_EQ(*from_base64(to_base64(bytes)), bytes);
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  for (const std::string_view bad :
       {"Zg", "Zg=", "Zh==", "Z===", "Zm 8", "Zm8=Zm8=", "====", "Zm9\n"})
    EXPECT_FALSE(from_base64(bad)) << bad;
}

}  // namespace
}  // namespace caisson::control
