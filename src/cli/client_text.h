// cli/client_text.h — what a server sent, as text on a terminal. It is somebody else's text: a
// sandbox can be named with an escape sequence in it, and that must not move a cursor here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::cli {

inline constexpr std::size_t kCellMax = 60;  // characters of one cell

// Valid UTF-8 without control characters and without marks that change the direction of writing;
// each that was there is a '?'. Cut with an ellipsis behind `max` characters.
[[nodiscard]] std::string shown(std::string_view text, std::size_t max = kCellMax);

// Columns as wide as their widest cell, two spaces between them, none at the end of a line.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  void add(std::vector<std::string> cells);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// "45s", "3m", "5h", "12d"; "0s" for what lies ahead.
[[nodiscard]] std::string age_text(double seconds);
// "512B", "1.5K", "64M", "2.0G": powers of 1024.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
// Seconds since 1970 of "2026-11-15T08:20:23.123456Z"; nothing when it is not of that form.
[[nodiscard]] std::optional<double> parse_time(std::string_view text);
[[nodiscard]] double wall_seconds();

// A word as /bin/sh reads it back unchanged.
[[nodiscard]] std::string shell_word(std::string_view word);
[[nodiscard]] std::string shell_line(std::span<const std::string> words);

}  // namespace caisson::cli
