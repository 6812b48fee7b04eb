// egress/budget/event_lines.h — the data of server-sent events, out of bytes that come in any
// pieces. Data is passed on as it arrives, so neither a line nor an event has to fit anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace caisson::egress {

class EventData {
 public:
  virtual ~EventData() = default;
  // A piece of the current event's data; lines of data are joined by a newline.
  virtual void on_data(std::string_view piece) = 0;
  // An empty line; also where the event had no data.
  virtual void on_event_end() = 0;
};

class EventLines {
 public:
  explicit EventLines(EventData& sink) : sink_(&sink) {}  // outlives us

  void feed(std::string_view piece);

 private:
  enum class At : std::uint8_t { Field, AfterColon, Data, Ignored };

  void end_line();
  [[nodiscard]] std::string_view take_field(std::string_view piece);

  EventData* sink_;
  At at_ = At::Field;
  std::string field_;      // its name, cut where it can be none that we know
  bool after_cr_ = false;  // a newline right here belongs to the line's end before it
  bool has_data_ = false;  // the event has a line of data already
  bool line_empty_ = true;
};

}  // namespace caisson::egress
