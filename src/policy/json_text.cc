#include "policy/json_text.h"

#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/serializer.hpp>

#include "policy/wording.h"

namespace caisson::policy {

namespace {

// Piece by piece: a long text is not held a second time.
void append(const boost::json::value& value, std::string& out) {
  std::array<char, 4096> piece;
  boost::json::serializer serializer;
  serializer.reset(&value);
  while (!serializer.done()) out += serializer.read(piece.data(), piece.size());
}

// The depth is that of a value we built ourselves.
void write(const boost::json::value& value, std::string& out) {
  if (const auto* object = value.if_object()) {
    out += '{';
    for (const auto& member : *object) {
      if (out.back() != '{') out += ", ";
      out += boost::json::serialize(boost::json::string_view(member.key())) + ": ";
      write(member.value(), out);
    }
    out += '}';
  } else if (const auto* array = value.if_array()) {
    out += '[';
    for (const auto& item : *array) {
      if (&item != &array->front()) out += ", ";
      write(item, out);
    }
    out += ']';
  } else if (const auto* number = value.if_double()) {
    out += decimal(*number, 1);
  } else {
    append(value, out);
  }
}

}  // namespace

std::string json_text(const boost::json::value& value) {
  std::string out;
  write(value, out);
  return out;
}

}  // namespace caisson::policy
