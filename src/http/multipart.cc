#include "http/multipart.h"

#include <fmt/format.h>

#include <algorithm>

#include "http/field.h"

namespace caisson::http {
namespace {

std::unexpected<Error> malformed(std::string_view what) {
  return failure(Errc::InvalidArgument, "multipart: " + std::string(what));
}

// The value of `name` among the parameters of a header field: token or quoted string, with the
// escapes that browsers use in it.
std::optional<std::string> parameter(std::string_view text, std::string_view name) {
  text.remove_prefix(std::min(text.find(';'), text.size()));
  while (!text.empty()) {
    text.remove_prefix(1);  // the semicolon
    const std::size_t equals = text.find_first_of("=;");
    if (equals == text.npos) return std::nullopt;
    const std::string_view key = trim(text.substr(0, equals));
    text.remove_prefix(equals);
    if (text.front() == ';') continue;
    text.remove_prefix(1);
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    std::string value;
    if (text.starts_with('"')) {
      text.remove_prefix(1);
      while (!text.empty() && text.front() != '"') {
        const bool escaped =
            text.size() > 1 && text.front() == '\\' && (text[1] == '"' || text[1] == '\\');
        if (escaped) text.remove_prefix(1);
        value += text.front();
        text.remove_prefix(1);
      }
      if (text.empty()) return std::nullopt;  // the quote is never closed
      text.remove_prefix(1);
      text.remove_prefix(std::min(text.find(';'), text.size()));
    } else {
      const std::size_t end = std::min(text.find(';'), text.size());
      value = trim(text.substr(0, end));
      text.remove_prefix(end);
    }
    if (same_name(key, name)) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> multipart_boundary(std::string_view content_type) {
  const std::string_view plain = trim(content_type.substr(0, content_type.find(';')));
  if (!same_name(plain, "multipart/form-data")) return std::nullopt;
  auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kBoundaryBytesMax) return std::nullopt;
  return boundary;
}

Result<Multipart::Event> Multipart::next_preamble() {
  const std::size_t at = rest().find(delimiter_);
  if (at == std::string_view::npos) {
    const std::size_t keep = std::min(rest().size(), delimiter_.size() - 1);
    preamble_ += rest().size() - keep;
    taken_ = held_.size() - keep;
    if (preamble_ > kPreambleBytesMax) return malformed("no boundary where one should be");
    return Event{};
  }
  taken_ += at + delimiter_.size();
  state_ = State::AfterBoundary;
  return next();
}

// "--" ends the body, a line's end begins a part; spaces may stand before it.
Result<Multipart::Event> Multipart::next_after_boundary() {
  while (rest().starts_with(' ') || rest().starts_with('\t')) ++taken_;
  if (rest().size() < 2) return Event{};
  const std::string_view two = rest().substr(0, 2);
  taken_ += 2;
  if (two == "--") {
    state_ = State::Done;
    return next();
  }
  if (two != "\r\n") return malformed("what follows a boundary is no line's end");
  if (++parts_ > parts_max_)
    return failure(Errc::TooLarge, fmt::format("multipart: more than {} parts", parts_max_));
  state_ = State::Head;
  return next();
}

Result<Multipart::Event> Multipart::next_head() {
  // A part without any field begins with the empty line at once.
  const std::size_t end = rest().starts_with("\r\n") ? 0 : rest().find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (rest().size() > kPartHeadBytesMax)
      return failure(Errc::TooLarge, "multipart: the head of a part is larger than 8 KiB");
    return Event{};
  }
  if (end > kPartHeadBytesMax)
    return failure(Errc::TooLarge, "multipart: the head of a part is larger than 8 KiB");
  std::string_view head = rest().substr(0, end);
  Event event;
  event.kind = Event::Kind::PartBegin;
  bool named = false;
  while (!head.empty()) {
    const std::size_t line_end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, line_end);
    head.remove_prefix(std::min(line_end + 2, head.size()));
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return malformed("a header line without a colon");
    if (!same_name(trim(line.substr(0, colon)), "Content-Disposition")) continue;
    const std::string_view value = trim(line.substr(colon + 1));
    auto name = parameter(value, "name");
    if (!name) return malformed("a part without a name");
    event.name = *std::move(name);
    event.filename = parameter(value, "filename");
    named = true;
  }
  if (!named) return malformed("a part without a Content-Disposition");
  taken_ += end == 0 ? 0 : end + 2;  // the empty line is next
  state_ = State::Bytes;
  first_ = true;
  return event;
}

Result<Multipart::Event> Multipart::next_bytes() {
  if (first_) {
    if (rest().size() < 2) return Event{};
    taken_ += 2;
    first_ = false;
  }
  const std::string_view left = rest();
  const std::size_t at = left.find(delimiter_);
  if (at == 0) {
    taken_ += delimiter_.size();
    state_ = State::AfterBoundary;
    Event event;
    event.kind = Event::Kind::PartEnd;
    return event;
  }
  std::size_t sure = at;
  if (at == std::string_view::npos) {
    // Everything but an end that could be the beginning of a boundary.
    const std::size_t tail = left.size() - std::min(left.size(), delimiter_.size() - 1);
    sure = left.size();
    for (std::size_t i = left.find('\r', tail); i != left.npos; i = left.find('\r', i + 1)) {
      if (delimiter_.starts_with(left.substr(i))) {
        sure = i;
        break;
      }
    }
  }
  if (sure == 0) return Event{};
  Event event;
  event.kind = Event::Kind::Data;
  event.bytes = left.substr(0, sure);
  taken_ += sure;
  return event;
}

Result<Multipart::Event> Multipart::next() {
  switch (state_) {
    case State::Preamble:
      return next_preamble();
    case State::AfterBoundary:
      return next_after_boundary();
    case State::Head:
      return next_head();
    case State::Bytes:
      return next_bytes();
    case State::Done:
      break;
  }
  taken_ = held_.size();
  Event event;
  event.kind = Event::Kind::End;
  return event;
}

Result<void> Multipart::finish() const {
  if (state_ == State::Done) return {};
  return malformed("the body ends before its closing boundary");
}

}  // namespace caisson::http
