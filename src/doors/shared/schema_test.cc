#include "doors/shared/schema.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace caisson::doors {
namespace {

namespace json = boost::json;

// The complaints about `body`, when `read` reads it.
template <class Read>
std::string complaints(std::string_view body, const Read& read) {
  const json::value value = json::parse(body);
  Problems problems;
  Fields fields(value, json::array{"body"}, problems);
  read(fields);
  if (problems.empty()) return "none";
  const std::string out = problems.body();
  return out.substr(11, out.size() - 13);  // without {"detail":[ and ]}
}

TEST(Schema, AMissingField) {
  const auto read = [](Fields& f) { (void)f.text("a"); };
  EXPECT_EQ(complaints(R"({"b":1})", read),
            R"({"type":"missing","loc":["body","a"],"msg":"Field required","input":{"b":1}})");
}

TEST(Schema, ABodyThatIsNoObject) {
  const auto read = [](Fields& f) { (void)f.text("a"); };
  EXPECT_EQ(complaints("[1]", read),
            R"({"type":"model_attributes_type","loc":["body"],"msg":"Input should be a valid )"
            R"(dictionary or object to extract fields from","input":[1]})");
}

TEST(Schema, NoString) {
  const auto read = [](Fields& f) { (void)f.text("a"); };
  EXPECT_EQ(
      complaints(R"({"a":5})", read),
      R"({"type":"string_type","loc":["body","a"],"msg":"Input should be a valid string","input":5})");
  EXPECT_EQ(
      complaints(R"({"a":null})", read),
      R"({"type":"string_type","loc":["body","a"],"msg":"Input should be a valid string","input":null})");
  const auto pairs = [](Fields& f) { (void)f.pairs_or_null("e"); };
  EXPECT_EQ(
      complaints(R"({"e":{"A":"x","B":1}})", pairs),
      R"({"type":"string_type","loc":["body","e","B"],"msg":"Input should be a valid string","input":1})");
  EXPECT_EQ(
      complaints(R"({"e":[]})", pairs),
      R"({"type":"dict_type","loc":["body","e"],"msg":"Input should be a valid dictionary","input":[]})");
  EXPECT_EQ(complaints(R"({"e":null})", pairs), "none");
}

// A body of a thousand mistakes is not answered with a thousand complaints.
TEST(Schema, ComplaintsHaveABound) {
  for (const std::size_t count : {kProblemsMax, kProblemsMax + 1, 10 * kProblemsMax}) {
    json::value body = json::object{{"c", json::array(count, json::value(5))}};
    Problems problems;
    Fields fields(body, json::array{"body"}, problems);
    (void)fields.texts("c");
    const json::value told = json::parse(problems.body());
    const json::array& list = told.at("detail").as_array();
    ASSERT_EQ(list.size(), kProblemsMax);
    EXPECT_EQ(list.back().at("loc").as_array().back().to_number<std::size_t>(), kProblemsMax - 1)
        << "the first ones";
  }
}

TEST(Schema, NoList) {
  const auto read = [](Fields& f) { (void)f.texts("c"); };
  EXPECT_EQ(
      complaints(R"({"c":"ls"})", read),
      R"({"type":"list_type","loc":["body","c"],"msg":"Input should be a valid list","input":"ls"})");
  EXPECT_EQ(
      complaints(R"({"c":["a",2,"b"]})", read),
      R"({"type":"string_type","loc":["body","c",1],"msg":"Input should be a valid string","input":2})");
  EXPECT_EQ(complaints(R"({"c":[]})", read), "none");
}

TEST(Schema, Booleans) {
  for (const std::string_view good :
       {"true", "1", "1.0", "\"true\"", "\"T\"", "\"Yes\"", "\"y\"", "\"ON\"", "\"1\""}) {
    EXPECT_EQ(complaints("{\"a\":" + std::string(good) + "}",
                         [](Fields& f) { EXPECT_TRUE(f.flag("a", false)); }),
              "none")
        << good;
  }
  for (const std::string_view good :
       {"false", "0", "\"FALSE\"", "\"f\"", "\"no\"", "\"N\"", "\"off\"", "\"0\""}) {
    EXPECT_EQ(complaints("{\"a\":" + std::string(good) + "}",
                         [](Fields& f) { EXPECT_FALSE(f.flag("a", true)); }),
              "none")
        << good;
  }
  const auto read = [](Fields& f) { (void)f.flag("a", false); };
  EXPECT_EQ(complaints(R"({"a":"maybe"})", read),
            R"({"type":"bool_parsing","loc":["body","a"],"msg":"Input should be a valid boolean, )"
            R"(unable to interpret input","input":"maybe"})");
  EXPECT_EQ(complaints(R"({"a":2})", read),
            R"({"type":"bool_parsing","loc":["body","a"],"msg":"Input should be a valid boolean, )"
            R"(unable to interpret input","input":2})");
  EXPECT_EQ(
      complaints(R"({"a":null})", read),
      R"({"type":"bool_type","loc":["body","a"],"msg":"Input should be a valid boolean","input":null})");
}

TEST(Schema, WholeNumbers) {
  const auto read = [](Fields& f) { (void)f.integer("a", 7, Bounds{0, 4095}); };
  for (const std::string_view good : {"5", "5.0", "\"5\"", "\" 5 \"", "\"5.0\"", "true", "4095"})
    EXPECT_EQ(complaints("{\"a\":" + std::string(good) + "}", read), "none") << good;
  EXPECT_EQ(complaints(R"({"a":"x"})", read),
            R"({"type":"int_parsing","loc":["body","a"],"msg":"Input should be a valid integer, )"
            R"(unable to parse string as an integer","input":"x"})");
  EXPECT_EQ(
      complaints(R"({"a":1.5})", read),
      R"({"type":"int_from_float","loc":["body","a"],"msg":"Input should be a valid integer, )"
      R"(got a number with a fractional part","input":1.5})");
  EXPECT_EQ(
      complaints(R"({"a":-1})", read),
      R"({"type":"greater_than_equal","loc":["body","a"],"msg":"Input should be greater than )"
      R"(or equal to 0","input":-1,"ctx":{"ge":0}})");
  EXPECT_EQ(complaints(R"({"a":4096})", read),
            R"({"type":"less_than_equal","loc":["body","a"],"msg":"Input should be less than or )"
            R"(equal to 4095","input":4096,"ctx":{"le":4095}})");
  EXPECT_EQ(
      complaints(R"({"a":[]})", read),
      R"({"type":"int_type","loc":["body","a"],"msg":"Input should be a valid integer","input":[]})");
  EXPECT_EQ(complaints(R"({"a":null})", [](Fields& f) { (void)f.integer_or_null("a"); }), "none");
  EXPECT_EQ(complaints("{}", [](Fields& f) { EXPECT_EQ(f.integer("a", 7, {}), 7); }), "none");
}

TEST(Schema, Numbers) {
  const auto read = [](Fields& f) { (void)f.number_or_null("a"); };
  for (const std::string_view good : {"5", "0.5", "\"0.5\"", "\"1e3\"", "null", "false"})
    EXPECT_EQ(complaints("{\"a\":" + std::string(good) + "}", read), "none") << good;
  EXPECT_EQ(complaints(R"({"a":"x"})", read),
            R"({"type":"float_parsing","loc":["body","a"],"msg":"Input should be a valid number, )"
            R"(unable to parse string as a number","input":"x"})");
  EXPECT_EQ(
      complaints(R"({"a":{}})", read),
      R"({"type":"float_type","loc":["body","a"],"msg":"Input should be a valid number","input":{}})");
}

TEST(Schema, Choices) {
  const auto read = [](Fields& f) { (void)f.choice("a", "deny", "allow"); };
  EXPECT_EQ(complaints(R"({"a":"allow"})", read), "none");
  EXPECT_EQ(complaints(R"({})", read), "none");
  EXPECT_EQ(
      complaints(R"({"a":"both"})", read),
      R"({"type":"literal_error","loc":["body","a"],"msg":"Input should be 'deny' or 'allow'",)"
      R"("input":"both","ctx":{"expected":"'deny' or 'allow'"}})");
}

TEST(Schema, Base64AndRulesOfItsOwn) {
  Problems problems;
  problems.base64(json::array{"body", "archive"}, "Incorrect padding", json::value("QQ"));
  problems.value_error(json::array{"body"}, "no", nullptr);
  problems.missing(json::array{"body"}, nullptr);
  EXPECT_EQ(
      problems.body(),
      R"({"detail":[{"type":"base64_decode","loc":["body","archive"],"msg":"Base64 decoding )"
      R"(error: 'Incorrect padding'","input":"QQ","ctx":{"error":"Incorrect padding"}},)"
      R"({"type":"value_error","loc":["body"],"msg":"Value error, no","input":null,"ctx":{"error":{}}},)"
      R"({"type":"missing","loc":["body"],"msg":"Field required","input":null}]})");
}

TEST(Schema, ComplainsInTheOrderOfFieldsAndIgnoresOthers) {
  const std::string all = complaints(R"({"dockerfile":null,"b":1,"a":2})", [](Fields& f) {
    (void)f.text("a");
    (void)f.text("b");
    (void)f.text("c");
  });
  EXPECT_LT(all.find("\"a\"]"), all.find("\"b\"]"));
  EXPECT_LT(all.find("\"b\"]"), all.find("\"c\"]"));
}

}  // namespace
}  // namespace caisson::doors
