// doors/rest/json_pieces.h — the text of a JSON object, piece by piece.
//
// In the words of policy::json_text, but never all of them in memory at once, and with an end to
// each piece, so that one large answer does not keep the thread from the others.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serializer.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace caisson::rest {

class JsonPieces {
 public:
  explicit JsonPieces(const boost::json::object& root);  // outlives it

  [[nodiscard]] bool done() const noexcept { return levels_.empty() && !in_text_; }
  // Appends until `out` has about so many bytes, or everything is there.
  void next(std::string& out, std::size_t bytes);

 private:
  struct Level {
    const boost::json::object* object = nullptr;  // or
    const boost::json::array* array = nullptr;
    std::size_t at = 0;
  };
  void step(std::string& out);
  void open(const boost::json::value& value, std::string& out);
  void go_on_with_text(std::string& out, std::size_t bytes);

  std::vector<Level> levels_;
  boost::json::serializer text_;  // of a long string
  bool in_text_ = false;
};

// About what it takes in memory, for the budget.
[[nodiscard]] std::size_t weight(const boost::json::object& object);

}  // namespace caisson::rest
