#include "http/http.h"

#include <algorithm>

namespace caisson::http {
namespace {

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view to_string(Method method) noexcept {
  switch (method) {
    case Method::Get:
      return "GET";
    case Method::Head:
      return "HEAD";
    case Method::Post:
      return "POST";
    case Method::Put:
      return "PUT";
    case Method::Patch:
      return "PATCH";
    case Method::Delete:
      return "DELETE";
    case Method::Options:
      return "OPTIONS";
    case Method::Other:
      break;
  }
  return "OTHER";
}

// Two fields of one name have no single value: whoever must refuse that asks count().
std::string_view Request::field(std::string_view name) const noexcept {
  const Field* found = nullptr;
  for (const Field& one : fields) {
    if (!same_name(one.name, name)) continue;
    if (found != nullptr) return {};
    found = &one;
  }
  return found != nullptr ? std::string_view(found->value) : std::string_view();
}

std::size_t Request::count(std::string_view name) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(fields.begin(), fields.end(),
                    [name](const Field& one) { return same_name(one.name, name); }));
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    out.push_back(c);
  }
  return out;
}

std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query,
                                                                            std::size_t max) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!query.empty()) {
    const std::size_t end = query.find('&');
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
    if (one.empty()) continue;
    if (pairs.size() == max) return std::nullopt;
    const std::size_t equals = one.find('=');
    auto name = percent_decode(one.substr(0, equals), true);
    auto value = percent_decode(
        equals == std::string_view::npos ? std::string_view() : one.substr(equals + 1), true);
    if (!name || !value) return std::nullopt;
    pairs.emplace_back(std::move(*name), std::move(*value));
  }
  return pairs;
}

}  // namespace caisson::http
