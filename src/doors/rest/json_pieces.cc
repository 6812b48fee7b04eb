#include "doors/rest/json_pieces.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "policy/json_text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr std::size_t kShortTextBytes = 4096;  // up to here a string is written in one go

}  // namespace

JsonPieces::JsonPieces(const json::object& root) { levels_.push_back({&root, nullptr, 0}); }

// A leaf as it is; a container or a long string is entered.
void JsonPieces::open(const json::value& value, std::string& out) {
  if (const auto* object = value.if_object()) {
    levels_.push_back({object, nullptr, 0});
  } else if (const auto* array = value.if_array()) {
    levels_.push_back({nullptr, array, 0});
  } else if (const auto* text = value.if_string(); text && text->size() > kShortTextBytes) {
    text_.reset(text);
    in_text_ = true;
  } else {
    out += policy::json_text(value);
  }
}

void JsonPieces::step(std::string& out) {
  Level& level = levels_.back();
  const std::size_t at = level.at++;
  const std::size_t size = level.object != nullptr ? level.object->size() : level.array->size();
  if (at == 0) out += level.object != nullptr ? '{' : '[';
  if (at == size) {
    out += level.object != nullptr ? '}' : ']';
    levels_.pop_back();
    return;
  }
  if (at > 0) out += ", ";
  if (level.object != nullptr) {
    const auto& member = *(level.object->begin() + static_cast<std::ptrdiff_t>(at));
    out += json::serialize(json::string_view(member.key()));
    out += ": ";
    open(member.value(), out);
  } else {
    open((*level.array)[at], out);
  }
}

void JsonPieces::go_on_with_text(std::string& out, std::size_t bytes) {
  const std::size_t before = out.size();
  const std::size_t room = std::max(bytes, before + kShortTextBytes) - before;
  out.resize(before + room);
  const json::string_view got = text_.read(out.data() + before, room);
  out.resize(before + got.size());
  in_text_ = !text_.done();
}

void JsonPieces::next(std::string& out, std::size_t bytes) {
  while (!done() && out.size() < bytes) {
    if (in_text_) {
      go_on_with_text(out, bytes);
    } else {
      step(out);
    }
  }
}

std::size_t weight(const json::object& object) {
  std::size_t sum = 0;
  std::vector<const json::value*> left;
  const auto enter = [&](const json::object& one) {
    for (const auto& member : one) {
      sum += sizeof(json::key_value_pair) + member.key().size();
      left.push_back(&member.value());
    }
  };
  enter(object);
  while (!left.empty()) {
    const json::value& value = *left.back();
    left.pop_back();
    if (const auto* inner = value.if_object()) enter(*inner);
    if (const auto* text = value.if_string()) sum += text->size();
    if (const auto* array = value.if_array()) {
      sum += array->size() * sizeof(json::value);
      for (const auto& item : *array) left.push_back(&item);
    }
  }
  return sum;
}

}  // namespace caisson::rest
