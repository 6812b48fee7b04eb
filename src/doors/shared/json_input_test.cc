// Words and places were read off Python 3.11.
#include "doors/shared/json_input.h"

#include <gtest/gtest.h>

#include "doors/shared/json_text.h"

namespace caisson::doors {
namespace {

using Status = JsonInput::Status;

Status feed(JsonInput& input, std::string_view text, std::size_t step) {
  for (std::size_t at = 0; at < text.size(); at += step) {
    const Status status = input.feed(text.substr(at, step));
    if (status != Status::Good) return status;
  }
  return input.finish();
}

// The value as text, or what is wrong with it, the same however it is cut.
std::string judged(std::string_view text) {
  std::string first;
  for (std::size_t step = text.size() + 1; step > 0; --step) {
    JsonInput input({});
    const Status status = feed(input, text, step);
    std::string out = status == Status::Good    ? json_text(input.take())
                      : status == Status::Wrong ? input.reason() + " " + std::to_string(input.at())
                      : status == Status::Unreadable ? "unreadable"
                                                     : "too large";
    JsonInput only({.keep = false});
    EXPECT_EQ(feed(only, text, step), status) << text;
    if (first.empty()) first = out;
    EXPECT_EQ(out, first) << text << " in pieces of " << step;
  }
  return first;
}

TEST(JsonInput, SaysWhatPythonSays) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"  ", "Expecting value 2"},
      {"{", "Expecting property name enclosed in double quotes 1"},
      {"{\"a\"", "Expecting ':' delimiter 4"},
      {"{\"a\":", "Expecting value 5"},
      {"{\"a\":1", "Expecting ',' delimiter 6"},
      {"{\"a\":1,", "Expecting property name enclosed in double quotes 7"},
      {"{\"a\":1,}", "Expecting property name enclosed in double quotes 7"},
      {"{a:1}", "Expecting property name enclosed in double quotes 1"},
      {"[", "Expecting value 1"},
      {"[1", "Expecting ',' delimiter 2"},
      {"[1,", "Expecting value 3"},
      {"[1 2]", "Expecting ',' delimiter 3"},
      {"[,]", "Expecting value 1"},
      {"{\"a\" 1}", "Expecting ':' delimiter 5"},
      {"{\"a\":1 \"b\":2}", "Expecting ',' delimiter 7"},
      {"{\"a\":\"b\"", "Expecting ',' delimiter 8"},
      {"\"abc", "Unterminated string starting at 0"},
      {"\"\\", "Unterminated string starting at 0"},
      {"\"a\nb\"", "Invalid control character at 2"},
      {"\"a\\x\"", "Invalid \\escape 2"},
      {"\"\\u12G4\"", "Invalid \\uXXXX escape 2"},
      {"\"\\u12", "Invalid \\uXXXX escape 2"},
      {"{} x", "Extra data 3"},
      {"nul", "Expecting value 0"},
      {"nulll", "Extra data 4"},
      {"01", "Extra data 1"},
      {"1.", "Extra data 1"},
      {"1e", "Extra data 1"},
      {"-", "Expecting value 0"},
      {"-I", "Expecting value 0"},
      {"[1.]", "Expecting ',' delimiter 2"},
      {"{\"a\":01}", "Expecting ',' delimiter 6"},
      {"'a'", "Expecting value 0"},
      // In characters, not in bytes.
      {"\"\xc3\xa9\\q\"", "Invalid \\escape 2"},
      {"{\"\xc3\xa9\": x}", "Expecting value 6"},
      {"[\"\xf0\x9f\x98\x80\" 1]", "Expecting ',' delimiter 5"},
      {"[1]\xc3\xa9", "Extra data 3"},
  };
  for (const auto& [text, words] : table) EXPECT_EQ(judged(text), words) << text;
}

TEST(JsonInput, ReadsWhatPythonReads) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {" {\"a\" : [1, -2.5, true ,false,null, {}, []], \"b\":{\"c\":\"d\"}} ",
       R"({"a":[1,-2.5,true,false,null,{},[]],"b":{"c":"d"}})"},
      {"\xEF\xBB\xBF{}", "{}"},
      {R"("\ud83d\ude00\u00e9\n\"\\\/\b\f\r\t\u0001")",
       "\"\xf0\x9f\x98\x80\xc3\xa9\\n\\\"\\\\/\\b\\f\\r\\t\\u0001\""},
      {"[NaN, Infinity, -Infinity]", "[null,null,null]"},
      {"{\"a\":1,\"b\":2,\"a\":3}", R"({"a":3,"b":2})"},
      {"[18446744073709551615, 1e3, 30.0, 1e22, 1e400, 1e-400]",
       "[18446744073709551615,1000.0,30.0,1e+22,null,0.0]"},
      {"\"\xe2\x82\xac\"", "\"\xe2\x82\xac\""},
      {"0", "0"},
  };
  for (const auto& [text, words] : table) EXPECT_EQ(judged(text), words) << text;
}

TEST(JsonInput, RefusesWhatIsNoText) {
  for (const std::string_view text :
       {"\"\xff\"", "\"\xe2\x82\"", "\xff", "[\xc0\x80]", "\"\\ud83d\"", "\"\\ud83dx\"",
        "\"\\ude00\"", "\"\\ud83d\\n\"", "\"\\ud83d\\u0041\""}) {
    JsonInput input({});
    EXPECT_EQ(feed(input, text, 1), Status::Unreadable) << text;
  }
}

TEST(JsonInput, HasLimits) {
  JsonInput deep({});
  EXPECT_EQ(deep.feed(std::string(kDepthMax, '[')), Status::Good);
  EXPECT_EQ(deep.feed("["), Status::Unreadable);
  JsonInput number({});
  EXPECT_EQ(number.feed(std::string(kNumberBytesMax, '1')), Status::Good);
  EXPECT_EQ(number.feed("1"), Status::Unreadable);
  JsonInput text({.text_bytes_max = 10});
  EXPECT_EQ(text.feed("[\"12345\",\"123"), Status::Good);
  EXPECT_EQ(text.feed("456"), Status::TooLarge);
  JsonInput other({.other_bytes_max = 10});
  EXPECT_EQ(other.feed("[1,2,3,4,5"), Status::Good);
  EXPECT_EQ(other.feed(","), Status::TooLarge);
}

TEST(JsonInput, HandsOnOneTextOfTheOutermostObject) {
  for (std::size_t step = 1; step < 90; ++step) {
    JsonInput input({}, "archive");
    const std::string_view text =
        R"({"x":{"archive":"inner"},"archive":"first","archive":"QUJD\nREVG","y":["archive"]})";
    std::string got;
    for (std::size_t at = 0; at < text.size(); at += step) {
      ASSERT_EQ(input.feed(text.substr(at, step)), Status::Good);
      auto piece = input.take_piece();
      if (piece.fresh) got.clear();
      got += piece.text;
    }
    ASSERT_EQ(input.finish(), Status::Good);
    EXPECT_EQ(got, "QUJD\nREVG") << step;
    EXPECT_EQ(json_text(input.take()),
              R"({"x":{"archive":"inner"},"archive":"QUJD\nREVG","y":["archive"]})");
  }
}

TEST(JsonInput, KeepsOnlyTheBeginningOfWhatItHandsOn) {
  JsonInput input({.text_bytes_max = 100}, "archive");
  ASSERT_EQ(input.feed("{\"archive\":\""), Status::Good);
  std::size_t got = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(input.feed(std::string(1000, 'A')), Status::Good);
    got += input.take_piece().text.size();
  }
  ASSERT_EQ(input.feed("\"}"), Status::Good);
  ASSERT_EQ(input.finish(), Status::Good);
  EXPECT_EQ(got, 1'000'000U);
  EXPECT_EQ(input.take().at("archive").get_string().size(), kEchoBytesMax);
  EXPECT_LT(input.held(), 100U);
}

}  // namespace
}  // namespace caisson::doors
