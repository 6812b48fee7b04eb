#include "policy/settings/setting_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "policy/lexical_path.h"
#include "policy/wording.h"

namespace caisson::policy::setting {
namespace {

std::string joined(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

template <class Number>
Result<Number> read_number(const YamlNode& node, std::string_view path, std::string_view wanted,
                           std::string_view alphabet, Number min, Number max) {
  if (node.kind != YamlNode::Kind::Scalar || !node.plain) return wrong_type(node, path, wanted);
  const std::string_view text = node.text;
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool leading_zero = digits.size() > 1 && digits[0] == '0' && is_digit(digits[1]);
  // from_chars reads "inf" and "nan" too, and those have letters of their own.
  const bool odd = text.find_first_not_of(alphabet) != std::string_view::npos;
  if (odd || leading_zero || code == std::errc::invalid_argument ||
      end != text.data() + text.size()) {
    return wrong(node, path, fmt::format("must be {}, found {}", wanted, in_quotes(text)));
  }
  if (code == std::errc::result_out_of_range || !(value >= min) || !(value <= max)) {
    return wrong(node, path,
                 fmt::format("must be from {} to {}, found {}", min, max, in_quotes(text)));
  }
  return value;
}

}  // namespace

std::unexpected<Error> wrong(const YamlNode& node, std::string_view path,
                             std::string_view message) {
  const std::string said = fmt::format("{}: {}", path, message);
  if (node.at.line == 0) return bad_field(std::string(path), said);
  Error error = invalid_at(node.at, said).error();
  error.field = path;
  return std::unexpected(std::move(error));
}

std::unexpected<Error> wrong_type(const YamlNode& node, std::string_view path,
                                  std::string_view wanted) {
  return wrong(node, path, fmt::format("must be {}, found {}", wanted, describe(node)));
}

Result<std::string> read_text(const YamlNode& node, std::string_view path, std::size_t bytes_max) {
  if (node.kind != YamlNode::Kind::Scalar) return wrong_type(node, path, "a string");
  if (node.text.size() > bytes_max) {
    return wrong(node, path,
                 fmt::format("{} bytes are too many, at most {}", node.text.size(), bytes_max));
  }
  if (std::ranges::any_of(node.text, is_control) || !is_utf8(node.text)) {
    return wrong(
        node, path,
        fmt::format("{} holds a control character or is not valid UTF-8", in_quotes(node.text)));
  }
  return node.text;
}

Result<std::int64_t> read_whole(const YamlNode& node, std::string_view path, std::int64_t min,
                                std::int64_t max) {
  return read_number<std::int64_t>(node, path, "a whole number", "-0123456789", min, max);
}

Result<double> read_fraction(const YamlNode& node, std::string_view path, double min, double max) {
  return read_number<double>(node, path, "a decimal number", "+-.0123456789eE", min, max);
}

Result<bool> read_truth(const YamlNode& node, std::string_view path) {
  if (node.kind == YamlNode::Kind::Scalar && node.plain) {
    if (node.text == "true") return true;
    if (node.text == "false") return false;
    return wrong(node, path, fmt::format("must be true or false, found {}", in_quotes(node.text)));
  }
  return wrong_type(node, path, "true or false");
}

Result<void> require_list(const YamlNode& node, std::string_view path, std::size_t max) {
  if (node.kind != YamlNode::Kind::List) return wrong_type(node, path, "a list ([] for none)");
  if (node.items.size() <= max) return {};
  return wrong(node, path,
               fmt::format("{} entries are too many, at most {}", node.items.size(), max));
}

Result<std::string> read_path(const YamlNode& node, std::string_view path, Empty empty) {
  const std::string text = TRY(read_text(node, path, kPathBytesMax));
  if (text.empty() && empty == Empty::Allowed) return text;
  if (!text.starts_with('/')) {
    return wrong(node, path, fmt::format("must be an absolute path, found {}", in_quotes(text)));
  }
  return placed(node, path, clean_path(text));
}

Result<std::string> read_image(const YamlNode& node, std::string_view path) {
  const std::string text = TRY(read_text(node, path, kImageBytesMax));
  const auto fits = [](char c) {
    return is_letter(c) || is_digit(c) ||
           std::string_view("._-/:@").find(c) != std::string_view::npos;
  };
  const bool begins = !text.empty() && (is_letter(text[0]) || is_digit(text[0]));
  if (begins && std::ranges::all_of(text, fits)) return text;
  return wrong(node, path,
               fmt::format("want the name of an image, such as host, found {}", in_quotes(text)));
}

Result<std::vector<std::string>> read_tools(const YamlNode& node, std::string_view path) {
  TRY(require_list(node, path, kToolsMax));
  std::vector<std::string> tools;
  for (const YamlNode& item : node.items) {
    const std::size_t which = TRY(read_word(item, path, known_tools()));
    std::string tool(known_tools()[which]);
    if (std::ranges::find(tools, tool) != tools.end())
      return wrong(item, path, fmt::format("{} is named twice", in_quotes(tool)));
    tools.push_back(std::move(tool));
  }
  return tools;
}

Result<std::vector<std::string>> read_patterns(const YamlNode& node, std::string_view path) {
  TRY(require_list(node, path, kBlocklistMax));
  std::vector<std::string> patterns;
  for (const YamlNode& item : node.items) {
    patterns.push_back(TRY(read_text(item, path, kPatternBytesMax)));
    if (patterns.back().empty()) return wrong(item, path, "an empty pattern matches every command");
  }
  return patterns;
}

Result<std::size_t> read_word(const YamlNode& node, std::string_view path,
                              std::span<const std::string_view> words, Case letters) {
  if (node.kind != YamlNode::Kind::Scalar) return wrong_type(node, path, "a word");
  const std::string text = letters == Case::Any ? lower(node.text) : node.text;
  const auto found = std::ranges::find(words, std::string_view(text));
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  return wrong(node, path,
               fmt::format("unknown {}; known: {}", in_quotes(node.text), joined(words)));
}

std::string print_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string print_list(std::span<const std::string> texts, std::size_t indent) {
  if (texts.empty()) return "[]";
  std::string out;
  for (const std::string& text : texts)
    out += fmt::format("\n{:{}}- {}", "", indent, print_text(text));
  return out;
}

}  // namespace caisson::policy::setting
