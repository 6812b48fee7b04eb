#include "doors/rest/json_pieces.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "policy/json_text.h"

namespace caisson::rest {
namespace {

namespace json = boost::json;

std::string all_of(const json::object& object, std::size_t bytes, std::size_t& largest) {
  JsonPieces pieces(object);
  std::string out;
  while (!pieces.done()) {
    std::string piece;
    pieces.next(piece, bytes);
    EXPECT_FALSE(piece.empty());
    largest = std::max(largest, piece.size());
    out += piece;
  }
  return out;
}

TEST(JsonPieces, SaysWhatJsonTextSays) {
  for (const char* text :
       {"{}", R"({"a": 1})", R"({"a": {}, "b": [], "c": [[], {}, [1, 2.5, 30.0, null, true]]})",
        R"({"x": {"y": {"z": ["\u0001\"\\", "ä"]}}, "last": false})"}) {
    const json::object object = json::parse(text).as_object();
    for (const std::size_t bytes : {1UL, 7UL, 100'000UL}) {
      std::size_t largest = 0;
      EXPECT_EQ(all_of(object, bytes, largest), policy::json_text(object)) << bytes;
    }
  }
}

TEST(JsonPieces, ALongTextIsCutIntoPieces) {
  json::object object;
  object["control"] = json::string(1'000'000, '\1');
  object["after"] = "end";
  std::size_t largest = 0;
  EXPECT_EQ(all_of(object, 32'768, largest), policy::json_text(object));
  EXPECT_LE(largest, 32'768U + 4096U);
}

TEST(JsonPieces, WeighsWhatItHolds) {
  json::object object;
  object["text"] = std::string(100'000, 'x');
  json::array list;
  for (int i = 0; i < 1000; ++i) list.emplace_back(json::object{{"name", "0123456789"}});
  object["list"] = std::move(list);
  EXPECT_GT(weight(object), 110'000U);
  EXPECT_LT(weight(object), 400'000U);
}

}  // namespace
}  // namespace caisson::rest
