#include "doors/rest/text.h"

#include <gtest/gtest.h>

#include "doors/rest/range.h"
#include "doors/rest/sse.h"

namespace caisson::rest {
namespace {

TEST(Text, IsAlwaysValidUtf8) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(valid_utf8("aä€😀"), "aä€😀");
  EXPECT_EQ(valid_utf8("a\xff"), "a" + r);
  EXPECT_EQ(valid_utf8("\xc0\x80"), r + r);
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), r + r + r);
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(valid_utf8("\xe2\x82"), r + r);
  EXPECT_EQ(cut_utf8("ab€", 4), "ab");
  EXPECT_EQ(cut_utf8("ab€", 5), "ab€");
}

TEST(Range, OneRangeOrAll) {
  const auto part = [](std::string_view field, std::uint64_t size) {
    const auto choice = choose_range(field, size);
    return choice.kind == RangeKind::Part
               ? std::to_string(choice.range.first) + "-" + std::to_string(choice.range.last)
           : choice.kind == RangeKind::Whole ? std::string("whole")
                                             : std::string("impossible");
  };
  EXPECT_EQ(part("bytes=0-0", 10), "0-0");
  EXPECT_EQ(part("bytes=2-", 10), "2-9");
  EXPECT_EQ(part("bytes=2-99", 10), "2-9");
  EXPECT_EQ(part("bytes=-3", 10), "7-9");
  EXPECT_EQ(part("bytes=-30", 10), "0-9");
  EXPECT_EQ(part("bytes=10-", 10), "impossible");
  EXPECT_EQ(part("bytes=0-0", 0), "impossible");
  EXPECT_EQ(part("bytes=-0", 10), "impossible");
  for (const auto* ignored : {"", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-2", "lines=0-1",
                              "bytes=0-1,3-4", "bytes=0-1-2", "bytes=99999999999999999999-",
                              "bytes=0-99999999999999999999", "bytes=+1-2"}) {
    EXPECT_EQ(part(ignored, 10), "whole") << ignored;
  }
}

TEST(Range, EtagsAndNames) {
  EXPECT_TRUE(etag_listed("\"a\", W/\"b\"", "\"b\""));
  EXPECT_TRUE(etag_listed("*", "\"b\""));
  EXPECT_FALSE(etag_listed("\"a\"", "\"b\""));
  EXPECT_FALSE(etag_listed("\"a\"", ""));
  for (const auto* risky : {"a.html", "a.svg", "a.xml", "a.xhtml", "a.js", "a", ".html", "a.HTM"}) {
    EXPECT_EQ(safe_type(risky), "application/octet-stream") << risky;
  }
  EXPECT_EQ(safe_type("x/a.PNG"), "image/png");
  EXPECT_EQ(disposition("/a/b\r\nX: y\".txt"),
            "attachment; filename*=UTF-8''b%0D%0AX%3A%20y%22.txt");
  EXPECT_EQ(disposition("/", ".tar"), "attachment; filename*=UTF-8''workspace.tar");
}

TEST(Sse, DataIsOneLine) {
  boost::json::object data;
  data["path"] = "a\n\ndata: {}\r\nevent: exit";
  EXPECT_EQ(event_text("change", "7", data),
            "id: 7\nevent: change\n"
            "data: {\"path\":\"a\\n\\ndata: {}\\r\\nevent: exit\"}\n\n");
  EXPECT_EQ(event_text("a\nb", "1\n2", {}), "id: 12\nevent: ab\ndata: {}\n\n");
}

}  // namespace
}  // namespace caisson::rest
