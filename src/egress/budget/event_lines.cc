#include "egress/budget/event_lines.h"

#include <algorithm>

namespace caisson::egress {

namespace {

constexpr std::string_view kData = "data";

}  // namespace

void EventLines::feed(std::string_view piece) {
  if (after_cr_ && !piece.empty()) {
    if (piece.front() == '\n') piece.remove_prefix(1);
    after_cr_ = false;
  }
  while (!piece.empty()) {
    const std::size_t end = std::min(piece.find_first_of("\r\n"), piece.size());
    std::string_view part = piece.substr(0, end);
    if (!part.empty()) line_empty_ = false;
    if (at_ == At::Field) part = take_field(part);
    if (at_ == At::AfterColon && !part.empty()) {
      if (part.front() == ' ') part.remove_prefix(1);
      at_ = At::Data;
    }
    if (at_ == At::Data && !part.empty()) sink_->on_data(part);
    if (end == piece.size()) return;
    end_line();
    const bool carriage = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    if (!carriage) continue;
    if (piece.empty()) {
      after_cr_ = true;
    } else if (piece.front() == '\n') {
      piece.remove_prefix(1);
    }
  }
}

// Reads on until the colon; what is left is the value.
std::string_view EventLines::take_field(std::string_view piece) {
  const std::size_t colon = std::min(piece.find(':'), piece.size());
  const std::size_t room = kData.size() + 1 - std::min(field_.size(), kData.size() + 1);
  field_ += piece.substr(0, std::min(colon, room));
  if (colon == piece.size()) return {};
  if (field_ != kData) {
    at_ = At::Ignored;
    return {};
  }
  if (has_data_) sink_->on_data("\n");
  has_data_ = true;
  at_ = At::AfterColon;
  return piece.substr(colon + 1);
}

void EventLines::end_line() {
  if (line_empty_) {
    sink_->on_event_end();
    has_data_ = false;
  }
  at_ = At::Field;
  field_.clear();
  line_empty_ = true;
}

}  // namespace caisson::egress
