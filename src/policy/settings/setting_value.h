// policy/settings/setting_value.h — one value of a setting: read from a YAML node and judged, or
// printed so that it reads back the same. A value of the environment or of a flag comes as a node
// too, of one that stands on no line (line 0), so there is one set of rules.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/settings/settings.h"
#include "policy/yaml_tree.h"

namespace caisson::policy::setting {

// "line 4, column 3: server.user: …", or without the line where there is none. The error's field is
// `path`.
[[nodiscard]] std::unexpected<Error> wrong(const YamlNode& node, std::string_view path,
                                           std::string_view message);
[[nodiscard]] std::unexpected<Error> wrong_type(const YamlNode& node, std::string_view path,
                                                std::string_view wanted);
// The error of a check that knows the value but not where it stands.
template <class T>
[[nodiscard]] Result<T> placed(const YamlNode& node, std::string_view path, Result<T> result) {
  if (result) return result;
  return wrong(node, path, result.error().message);
}

[[nodiscard]] Result<std::string> read_text(const YamlNode& node, std::string_view path,
                                            std::size_t bytes_max);
// Decimal digits only: 0x10 and 1_000 are numbers to some readers of YAML and strings to others.
[[nodiscard]] Result<std::int64_t> read_whole(const YamlNode& node, std::string_view path,
                                              std::int64_t min, std::int64_t max);
[[nodiscard]] Result<double> read_fraction(const YamlNode& node, std::string_view path, double min,
                                           double max);
[[nodiscard]] Result<bool> read_truth(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<void> require_list(const YamlNode& node, std::string_view path,
                                        std::size_t max);
// An absolute path, cleaned; empty where `empty` says that nothing may be named.
enum class Empty : std::uint8_t { Refused, Allowed };
[[nodiscard]] Result<std::string> read_path(const YamlNode& node, std::string_view path,
                                            Empty empty);
[[nodiscard]] Result<std::string> read_image(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<std::vector<std::string>> read_tools(const YamlNode& node,
                                                          std::string_view path);
[[nodiscard]] Result<std::vector<std::string>> read_patterns(const YamlNode& node,
                                                             std::string_view path);

// Which of `words` it is; the message lists them. `Case::Any` for what other programs write in
// capitals.
enum class Case : std::uint8_t { Exact, Any };
[[nodiscard]] Result<std::size_t> read_word(const YamlNode& node, std::string_view path,
                                            std::span<const std::string_view> words,
                                            Case letters = Case::Exact);

// In double quotes, as YAML and JSON both read it.
[[nodiscard]] std::string print_text(std::string_view text);
// "[]", or one line each, `indent` spaces in.
[[nodiscard]] std::string print_list(std::span<const std::string> texts, std::size_t indent);

}  // namespace caisson::policy::setting
