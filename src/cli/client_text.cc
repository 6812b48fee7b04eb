#include "cli/client_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>

#include "policy/wording.h"

namespace caisson::cli {
namespace {

// How many bytes the character at the front has; 0 when no valid one stands there.
std::size_t character_bytes(std::string_view text) {
  for (std::size_t size = 1; size <= std::min<std::size_t>(4, text.size()); ++size) {
    if (policy::is_utf8(text.substr(0, size))) return size;
  }
  return 0;
}

std::uint32_t code_point(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (bytes.size() == 1) return lead;
  std::uint32_t value = lead & (0xffU >> (bytes.size() + 1));
  for (const char c : bytes.substr(1))
    value = value << 6U | (static_cast<unsigned char>(c) & 0x3fU);
  return value;
}

bool acts_on_a_terminal(std::uint32_t point) {
  if (point < 0x20 || (point >= 0x7f && point <= 0x9f)) return true;
  if (point == 0x061c || point == 0x200e || point == 0x200f) return true;  // direction marks
  if (point >= 0x202a && point <= 0x202e) return true;                     // and overrides
  if (point >= 0x2066 && point <= 0x2069) return true;                     // and isolates
  return point == 0x2028 || point == 0x2029;                               // line separators
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

void add_line(std::string& out, const std::vector<std::string>& cells,
              const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += cells[i];
    if (i + 1 < cells.size()) line.append(widths[i] - characters(cells[i]) + 2, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || text.starts_with('-'))
    return std::nullopt;
  return value;
}

}  // namespace

std::string shown(std::string_view text, std::size_t max) {
  std::string out;
  std::size_t count = 0;
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    if (++count > max) {
      // The last one makes room for the ellipsis.
      while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0U) == 0x80U)
        out.pop_back();
      if (!out.empty()) out.pop_back();
      return out + "…";
    }
    const bool plain = size > 0 && !acts_on_a_terminal(code_point(text.substr(0, size)));
    out += plain ? text.substr(0, size) : "?";
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(headings_.size());
  for (std::string& cell : cells) {
    cell = shown(cell);
    if (cell.empty()) cell = "-";
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(characters(heading));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], characters(row[i]));
  }
  std::string out;
  add_line(out, headings_, widths);
  for (const auto& row : rows_) add_line(out, row, widths);
  return out;
}

std::string age_text(double seconds) {
  if (!(seconds >= 1)) return "0s";
  if (seconds < 90) return fmt::format("{}s", static_cast<int>(seconds));
  if (seconds < 90 * 60) return fmt::format("{}m", static_cast<int>(seconds / 60));
  if (seconds < 48.0 * 3600) return fmt::format("{}h", static_cast<int>(seconds / 3600));
  return fmt::format("{}d", static_cast<std::int64_t>(std::min(seconds, 1e12) / 86400));
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::string_view kUnits = "KMGTPE";
  if (bytes < 1024) return fmt::format("{}B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return value < 10 ? fmt::format("{:.1f}{}", value, kUnits[unit])
                    : fmt::format("{:.0f}{}", value, kUnits[unit]);
}

std::optional<double> parse_time(std::string_view text) {
  // 2026-11-15T08:20:23[.123456]Z
  if (text.size() < 20 || !text.ends_with('Z') || text[4] != '-' || text[7] != '-' ||
      text[10] != 'T' || text[13] != ':' || text[16] != ':')
    return std::nullopt;
  std::array<int, 6> parts{};
  constexpr std::array<std::size_t, 6> kStarts = {0, 5, 8, 11, 14, 17};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto part = number(text.substr(kStarts[i], i == 0 ? 4 : 2));
    if (!part) return std::nullopt;
    parts[i] = *part;
  }
  double fraction = 0;
  const std::string_view rest = text.substr(19, text.size() - 20);
  if (!rest.empty()) {
    const std::string_view digits = rest.substr(1);
    if (rest[0] != '.' || digits.empty() || digits.size() > 9 ||
        !std::ranges::all_of(digits, policy::is_digit))
      return std::nullopt;
    double scale = 0.1;
    for (const char c : digits) {
      fraction += scale * (c - '0');
      scale /= 10;
    }
  }
  std::tm time{};
  time.tm_year = parts[0] - 1900;
  time.tm_mon = parts[1] - 1;
  time.tm_mday = parts[2];
  time.tm_hour = parts[3];
  time.tm_min = parts[4];
  time.tm_sec = parts[5];
  return static_cast<double>(::timegm(&time)) + fraction;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string shell_word(std::string_view word) {
  const auto plain = [](char c) {
    return policy::is_letter(c) || policy::is_digit(c) ||
           std::string_view("_-./:=@%+,").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return std::string(word);
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += R"('\'')";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string shell_line(std::span<const std::string> words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + shell_word(word);
  return out;
}

}  // namespace caisson::cli
