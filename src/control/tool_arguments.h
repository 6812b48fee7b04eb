// control/tool_arguments.h — the arguments of one tool, read by name; in the end what nobody read
// is refused. Errors name "arguments.x", what stands there and what is wanted.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace caisson::control {

class ToolArguments {
 public:
  // The object outlives it, and so do the names.
  explicit ToolArguments(const boost::json::object& object) : object_(object) {}

  [[nodiscard]] Result<std::string> text(std::string_view name, std::size_t bytes_max);
  [[nodiscard]] Result<std::optional<std::string>> text_or_none(std::string_view name,
                                                                std::size_t bytes_max);
  [[nodiscard]] Result<std::optional<std::vector<std::string>>> texts_or_none(
      std::string_view name, std::size_t count_max, std::size_t bytes_max);
  [[nodiscard]] Result<bool> flag(std::string_view name);
  [[nodiscard]] Result<std::optional<double>> number(std::string_view name);
  [[nodiscard]] Result<std::int64_t> whole(std::string_view name, std::int64_t otherwise,
                                           std::int64_t min, std::int64_t max);
  [[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> pairs(
      std::string_view name);
  [[nodiscard]] Result<void> finish() const;

 private:
  [[nodiscard]] const boost::json::value* look(std::string_view name);

  const boost::json::object& object_;
  std::vector<std::string_view> known_;
};

// "arguments.NAME", cut.
[[nodiscard]] std::string argument_field(std::string_view name);

}  // namespace caisson::control
