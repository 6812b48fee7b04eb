#include "doors/rest/json_reader.h"

#include <gtest/gtest.h>

namespace caisson::rest {
namespace {

// What must not get through, and a word of the complaint.
TEST(ParseJson, RefusesHostileInput) {
  const std::string deep = std::string(100'000, '[');
  const std::string deep_objects = [] {
    std::string text;
    for (int i = 0; i < 50'000; ++i) text += R"({"a":)";
    return text;
  }();
  const struct {
    std::string text;
    std::string_view word;
  } table[] = {
      {"", "not JSON"},
      {" ", "not JSON"},
      {"{", "not JSON"},
      {"{\"a\":1", "not JSON"},
      {"{\"a\":1}x", "behind"},
      {"{\"a\":1}{}", "behind"},
      {"{\"a\":1,}", "not JSON"},
      {"{'a':1}", "not JSON"},
      {"{a:1}", "not JSON"},
      {"// c\n{}", "not JSON"},
      {"{/* c */}", "not JSON"},
      {R"({"a":1,"a":2})", "twice"},
      {R"({"a":1,"\u0061":2})", "twice"},
      {R"({"x":{"b":1,"c":{},"b":1}})", "twice"},
      {deep, "deeper"},
      {deep_objects, "deeper"},
      {R"({"a":1e999})", "not JSON"},
      {R"({"a":-1e999})", "not JSON"},
      {R"({"a":NaN})", "not JSON"},
      {R"({"a":Infinity})", "not JSON"},
      {R"({"a":01})", "not JSON"},
      {R"({"a":.5})", "not JSON"},
      {"{\"a\":\"\xff\"}", "not JSON"},
      {"{\"a\":\"\xc0\x80\"}", "not JSON"},
      {"{\"a\":\"\xed\xa0\x80\"}", "not JSON"},
      {"{\"\xff\":1}", "not JSON"},
      {R"({"a":"\ud800"})", "not JSON"},
      {R"({"a":"\udc00"})", "not JSON"},
      {"{\"a\":\"line\nfeed\"}", "not JSON"},
      {"\xef\xbb\xbf{}", "not JSON"},
      {"{\"a\":tru}", "not JSON"},
      {std::string("{\"a\":1}\0", 8), "behind"},
  };
  for (const auto& [text, word] : table) {
    const auto value = parse_json(text);
    ASSERT_FALSE(value) << text.substr(0, 80);
    EXPECT_NE(value.error().message.find(word), std::string::npos)
        << text.substr(0, 80) << " → " << value.error().message;
  }
}

TEST(ParseJson, HoldsItsLimits) {
  std::string nested = std::string(kJsonDepthMax, '[') + std::string(kJsonDepthMax, ']');
  EXPECT_TRUE(parse_json(nested));
  EXPECT_FALSE(parse_json("[" + nested + "]"));

  const auto array_of = [](std::size_t count) {
    std::string text = "[1";
    for (std::size_t i = 1; i < count; ++i) text += ",1";
    return text + "]";
  };
  EXPECT_TRUE(parse_json(array_of(kJsonItemsMax)));
  EXPECT_EQ(parse_json(array_of(kJsonItemsMax + 1)).error().code, Errc::TooLarge);

  const auto object_of = [](std::size_t count) {
    std::string text = "{\"0\":1";
    for (std::size_t i = 1; i < count; ++i) text += ",\"" + std::to_string(i) + "\":1";
    return text + "}";
  };
  EXPECT_TRUE(parse_json(object_of(kJsonMembersMax)));
  EXPECT_EQ(parse_json(object_of(kJsonMembersMax + 1)).error().code, Errc::TooLarge);

  std::string many = "[";
  for (std::size_t i = 0; i <= kJsonValuesMax / kJsonItemsMax; ++i) {
    many += (i > 0 ? "," : "") + array_of(kJsonItemsMax);
  }
  EXPECT_EQ(parse_json(many + "]").error().code, Errc::TooLarge);

  EXPECT_EQ(parse_json("{\"" + std::string(kJsonKeyBytesMax + 1, 'k') + "\":1}").error().code,
            Errc::TooLarge);
  EXPECT_EQ(parse_json(std::string(kJsonBytesMax + 1, ' ')).error().code, Errc::TooLarge);
}

TEST(ParseJson, ReadsWhatIsGood) {
  const auto value = parse_json_object(" {\"a\\u0062\": [1, 2.5, null, true, \"\\u20ac\"]} \n");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(value->at("ab").as_array().size(), 5U);
  EXPECT_FALSE(parse_json_object("[1]"));
}

TEST(Fields, NamesWhatIsWrong) {
  const auto body = parse_json_object(
      R"({"t":1,"n":"two","i":2.5,"b":"yes","c":"blue","l":[1],"o":[],"p":{"k":1},"z":"a\u0000b"})");
  ASSERT_TRUE(body);
  const auto complaint = [&](auto&& look) {
    Fields fields(*body, "outer");
    for (const auto& member : *body) (void)fields.any(member.key());
    look(fields);
    const auto end = fields.finish();
    return end ? std::string() : end.error().field + "|" + end.error().message;
  };
  EXPECT_EQ(complaint([](Fields& f) { (void)f.text("t", {}); }),
            "outer.t|outer.t is 1: want a string");
  EXPECT_EQ(complaint([](Fields& f) { (void)f.number("n", 0.5, 4); }),
            "outer.n|outer.n is \"two\": want a number from 0.5 to 4");
  EXPECT_EQ(complaint([](Fields& f) { (void)f.positive("n", 4); }),
            "outer.n|outer.n is \"two\": want a number above 0, at most 4");
  EXPECT_NE(complaint([](Fields& f) { (void)f.integer("i", 0, 9); }), "");
  EXPECT_NE(complaint([](Fields& f) { (void)f.boolean("b"); }), "");
  EXPECT_EQ(complaint([](Fields& f) { (void)f.choice("c", {"red", "green"}); }),
            "outer.c|outer.c is \"blue\": want \"red\" or \"green\"");
  EXPECT_EQ(complaint([](Fields& f) { (void)f.texts("l", 3, {}); }),
            "outer.l[0]|outer.l[0] is 1: want a string");
  EXPECT_NE(complaint([](Fields& f) { (void)f.object("o"); }), "");
  EXPECT_NE(complaint([](Fields& f) { (void)f.pairs("p", 3, {}, {}); }), "");
  EXPECT_EQ(complaint([](Fields& f) { (void)f.text("z", {}); }),
            "outer.z|outer.z holds a NUL character");
  EXPECT_EQ(complaint([](Fields& f) { f.require("q"); }), "outer.q|outer.q is missing");
}

TEST(Fields, RefusesWhatNobodyAskedFor) {
  const auto body = parse_json_object(R"({"memroy_mb":1})");
  Fields fields(*body, "resource_limits");
  (void)fields.number("memory_mb", 1, 2);
  const auto end = fields.finish();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().field, "resource_limits.memroy_mb");
  EXPECT_NE(end.error().message.find("memory_mb"), std::string::npos);
}

TEST(Fields, NullIsAsGoodAsAbsent) {
  const auto body = parse_json_object(R"({"a":null})");
  Fields fields(*body);
  EXPECT_FALSE(fields.text("a", {}));
  EXPECT_TRUE(fields.finish());
  fields.require("a");
  EXPECT_FALSE(fields.finish());
}

TEST(Fields, IntegersAreExact) {
  const auto body = parse_json_object(
      R"({"a":3.0,"b":9007199254740993.0,"c":18446744073709551615,"d":1e300,"e":-1})");
  const auto integer = [&](std::string_view name) {
    Fields fields(*body);
    for (const auto& member : *body) (void)fields.any(member.key());
    const auto value = fields.integer(name, 0, INT64_MAX);
    return value && fields.finish() ? *value : -1;
  };
  EXPECT_EQ(integer("a"), 3);
  for (const auto* name : {"b", "c", "d", "e"}) EXPECT_EQ(integer(name), -1) << name;
}

}  // namespace
}  // namespace caisson::rest
