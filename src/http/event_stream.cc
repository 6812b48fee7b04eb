#include "http/event_stream.h"

namespace caisson::http {

bool EventStream::line(std::string_view text, const Take& take) {
  if (text.empty()) {
    const bool complete = has_data_;
    has_data_ = false;
    bool go_on = true;
    if (complete) {
      event_.data.pop_back();  // the LF behind the last line
      go_on = take(event_);
    }
    event_.name.clear();  // the id stays until another comes
    event_.data.clear();
    return go_on;
  }
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::string_view value =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    event_.data.append(value).push_back('\n');
    has_data_ = true;
  } else if (name == "event") {
    event_.name = value;
  } else if (name == "id") {
    event_.id = value;
  }
  return true;
}

Result<bool> EventStream::feed(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const std::size_t end = bytes.find_first_of("\r\n");
    partial_ += bytes.substr(0, end);
    if (partial_.size() + event_.data.size() > kEventBytesMax) {
      return failure(Errc::Protocol, "an event of the server is too large");
    }
    if (end == std::string_view::npos) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    const bool go_on = line(partial_, take);
    partial_.clear();
    if (!go_on) return false;
  }
  return true;
}

}  // namespace caisson::http
