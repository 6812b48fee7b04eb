#include "http/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <charconv>

namespace caisson::http {

std::string_view reason_of(unsigned status) noexcept {
  switch (status) {
      // clang-format off
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 402: return "Payment Required";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 407: return "Proxy Authentication Required";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 426: return "Upgrade Required";
    case 428: return "Precondition Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "Status";
      // clang-format on
  }
}

std::string_view DateText::now() {
  const std::time_t second = std::time(nullptr);
  if (second != second_) {
    // Names of days and months by hand: the process's locale must not reach the wire.
    constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::tm t = fmt::gmtime(second);
    text_ = fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[t.tm_wday], t.tm_mday,
                        kMonths[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    second_ = second;
  }
  return text_;
}

namespace {

void append_number(std::string& out, std::uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

bool is_ours(std::string_view name) noexcept {
  for (const std::string_view ours : {"content-length", "transfer-encoding", "date", "server",
                                      "x-request-id", "content-type", "x-content-type-options"}) {
    if (same_name(name, ours)) return true;
  }
  return false;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

void put_answer_field(std::vector<Field>& fields, std::string_view name, std::string_view value) {
  if (!is_field_name(name) || !is_field_value(value) || is_ours(name)) return;
  if (!same_name(name, "set-cookie")) {
    for (Field& field : fields) {
      if (!same_name(field.name, name)) continue;
      field.value = value;
      return;
    }
  }
  fields.push_back(Field{std::string(name), std::string(value)});
}

void write_head(const ResponseHead& head, std::string& out) {
  if (head.status == 200) {
    out.append("HTTP/1.1 200 OK\r\nServer: caisson\r\nX-Content-Type-Options: nosniff\r\nDate: ");
  } else {
    out.append("HTTP/1.1 ");
    append_number(out, head.status);
    out.append(" ").append(reason_of(head.status));
    out.append("\r\nServer: caisson\r\nX-Content-Type-Options: nosniff\r\nDate: ");
  }
  out.append(head.date).append("\r\nX-Request-Id: ").append(head.request_id).append("\r\n");
  if (!head.content_type.empty()) append_field(out, "Content-Type", head.content_type);
  if (head.kind == BodyKind::Length) {
    out.append("Content-Length: ");
    append_number(out, head.length);
    out.append("\r\n");
  } else if (head.kind == BodyKind::Chunked) {
    out.append("Transfer-Encoding: chunked\r\n");
  }
  if (!head.connection.empty()) append_field(out, "Connection", head.connection);
  for (const Field& field : head.fields) append_field(out, field.name, field.value);
  out.append("\r\n");
}

}  // namespace caisson::http
