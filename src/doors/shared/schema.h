// doors/shared/schema.h — what a body must look like, and every complaint about it in the words of
// pydantic: a list of {"type", "loc", "msg", "input", "ctx"}, in the order of the fields.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caisson::doors {

using Pairs = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::size_t kProblemsMax = 100;  // of one body; what follows is not told

class Problems {
 public:
  void add(std::string_view type, boost::json::array loc, std::string message,
           boost::json::value input, std::optional<boost::json::object> context = std::nullopt);
  void missing(boost::json::array loc, boost::json::value input);
  // A rule of a model's own: "Value error, TEXT".
  void value_error(boost::json::array loc, std::string_view text, boost::json::value input);
  void base64(boost::json::array loc, const std::string& error, boost::json::value input);

  [[nodiscard]] bool empty() const noexcept { return list_.empty(); }
  [[nodiscard]] std::string body() const;  // {"detail":[…]}

 private:
  boost::json::array list_;
};

struct Bounds {
  std::optional<std::int64_t> least;
  std::optional<std::int64_t> most;
};

// One value each. Nothing, and a problem, when it is none.
[[nodiscard]] std::optional<std::string> read_text(const boost::json::value& value,
                                                   const boost::json::array& loc,
                                                   Problems& problems);
[[nodiscard]] std::optional<bool> read_flag(const boost::json::value& value,
                                            const boost::json::array& loc, Problems& problems);
[[nodiscard]] std::optional<std::int64_t> read_integer(const boost::json::value& value,
                                                       const Bounds& bounds,
                                                       const boost::json::array& loc,
                                                       Problems& problems);
[[nodiscard]] std::optional<double> read_number(const boost::json::value& value,
                                                const boost::json::array& loc, Problems& problems);

// The fields of an object. Unknown ones are ignored; what is wrong is in `problems`, and the field
// has its default then.
class Fields {
 public:
  // Both outlive it.
  Fields(const boost::json::value& value, boost::json::array loc, Problems& problems);

  [[nodiscard]] std::string text(std::string_view name);  // must be there
  [[nodiscard]] std::optional<std::string> text_or_null(std::string_view name);
  [[nodiscard]] bool flag(std::string_view name, bool otherwise);
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise,
                                     const Bounds& bounds);
  [[nodiscard]] std::optional<std::int64_t> integer_or_null(std::string_view name,
                                                            const Bounds& bounds = {});
  [[nodiscard]] std::optional<double> number_or_null(std::string_view name);
  [[nodiscard]] std::vector<std::string> texts(std::string_view name);  // must be there
  [[nodiscard]] std::vector<std::string> texts_or(std::string_view name,
                                                  std::vector<std::string> otherwise);
  [[nodiscard]] Pairs pairs_or_null(std::string_view name);
  [[nodiscard]] std::string choice(std::string_view name, std::string_view first,
                                   std::string_view second);  // the first when it is left out

  // As it is; nothing, and a problem, when it must be there and is not.
  [[nodiscard]] const boost::json::value* required(std::string_view name);
  [[nodiscard]] const boost::json::value* find(std::string_view name) const;
  [[nodiscard]] const boost::json::value* find_not_null(std::string_view name) const;
  [[nodiscard]] boost::json::array loc(std::string_view name) const;

 private:
  std::vector<std::string> list(const boost::json::value& value, std::string_view name);

  const boost::json::value& value_;
  const boost::json::object* object_;
  boost::json::array loc_;
  Problems& problems_;
};

}  // namespace caisson::doors
