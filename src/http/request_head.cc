#include "http/request_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstring>

namespace caisson::http {
namespace {

namespace beast = boost::beast;

std::unexpected<Refusal> refuse(unsigned status, Errc code, std::string field,
                                std::string message) {
  return std::unexpected(Refusal{status, Error{code, std::move(message), 0, std::move(field)}});
}

std::unexpected<Refusal> malformed(std::string field, std::string message) {
  return refuse(400, Errc::InvalidArgument, std::move(field), std::move(message));
}

Method method_of(beast::http::verb verb) noexcept {
  switch (verb) {
    case beast::http::verb::get:
      return Method::Get;
    case beast::http::verb::head:
      return Method::Head;
    case beast::http::verb::post:
      return Method::Post;
    case beast::http::verb::put:
      return Method::Put;
    case beast::http::verb::patch:
      return Method::Patch;
    case beast::http::verb::delete_:
      return Method::Delete;
    case beast::http::verb::options:
      return Method::Options;
    default:
      return Method::Other;
  }
}

// Beast's grammar, our strings: it calls back with each part, and nothing is stored twice.
class HeadParser final : public beast::http::basic_parser<true> {
 public:
  HeadParser(Request& request, Framing& framing) : request_(request), framing_(framing) {}

 private:
  using error_code = beast::error_code;
  using string_view = beast::string_view;

  void on_request_impl(beast::http::verb method, string_view method_text, string_view target,
                       int version, error_code&) override {
    request_.method = method_of(method);
    request_.method_text.assign(method_text.data(), method_text.size());
    request_.target.assign(target.data(), target.size());
    framing_.http11 = version == 11;
  }
  void on_field_impl(beast::http::field, string_view name, string_view value,
                     error_code&) override {
    request_.fields.push_back(Field{std::string(name), std::string(value)});
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view, error_code&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view, error_code&) override { return 0; }
  void on_finish_impl(error_code&) override {}

  Request& request_;
  Framing& framing_;
};

// What each field says on its own; one pass, so that a request costs no search per question.
struct Seen {
  std::size_t hosts = 0;
  std::size_t lengths = 0;
  std::size_t encodings = 0;
  std::size_t expects = 0;
  std::string_view host;
  std::string_view length;
  std::string_view encoding;
  std::string_view expect;
  std::string_view upgrade;
  bool connection_close = false;
  bool connection_keep = false;
  bool connection_upgrade = false;
};

void look_at(const Field& field, Seen& seen) {
  const std::string_view name = field.name;
  switch (name.size()) {
    case 4:
      if (same_name(name, "host")) ++seen.hosts, seen.host = field.value;
      break;
    case 6:
      if (same_name(name, "expect")) ++seen.expects, seen.expect = field.value;
      break;
    case 7:
      if (same_name(name, "upgrade")) seen.upgrade = field.value;
      break;
    case 10:
      if (same_name(name, "connection")) {
        seen.connection_close |= has_token(field.value, "close");
        seen.connection_keep |= has_token(field.value, "keep-alive");
        seen.connection_upgrade |= has_token(field.value, "upgrade");
      }
      break;
    case 14:
      if (same_name(name, "content-length")) ++seen.lengths, seen.length = field.value;
      break;
    case 17:
      if (same_name(name, "transfer-encoding")) ++seen.encodings, seen.encoding = field.value;
      break;
    default:
      break;
  }
}

bool is_authority(std::string_view host) noexcept {
  return std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".-_:[]%~").find(c) != std::string_view::npos;
  });
}

std::expected<void, Refusal> check_host(const Seen& seen, bool http11) {
  if (seen.hosts > 1) return malformed("Host", "Host: sent twice; send it once");
  if (seen.hosts == 0 && http11) return malformed("Host", "Host: missing; HTTP/1.1 needs one");
  if (!is_authority(seen.host)) {
    return malformed("Host", "Host: want a name or address with an optional port");
  }
  return {};
}

std::expected<void, Refusal> check_body(const Seen& seen, Request& request, Framing& framing) {
  if (seen.encodings > 0 && seen.lengths > 0) {
    return malformed("Transfer-Encoding",
                     "Transfer-Encoding and Content-Length together: send only one of them");
  }
  if (seen.lengths > 1) return malformed("Content-Length", "Content-Length: sent twice");
  if (seen.encodings > 1) return malformed("Transfer-Encoding", "Transfer-Encoding: sent twice");
  if (seen.encodings == 1) {
    if (!framing.http11) {
      return malformed("Transfer-Encoding", "Transfer-Encoding: not part of HTTP/1.0");
    }
    if (!same_name(seen.encoding, "chunked")) {
      return malformed("Transfer-Encoding", "Transfer-Encoding: only 'chunked' is understood");
    }
    framing.chunked = true;
    request.has_body = true;
  }
  if (seen.lengths == 1) {
    // Digits only: "+5", "5,5" and "0x5" are a five to some readers and not to others.
    constexpr std::size_t kDigitsMax = 18;
    std::uint64_t length = 0;
    if (seen.length.empty() || seen.length.size() > kDigitsMax ||
        seen.length.find_first_not_of("0123456789") != std::string_view::npos) {
      return malformed("Content-Length", "Content-Length: want a decimal number");
    }
    for (const char digit : seen.length) {
      length = length * 10 + static_cast<std::uint64_t>(digit - '0');
    }
    request.content_length = length;
    request.has_body = length > 0;
  }
  return {};
}

std::expected<void, Refusal> check_expect(const Seen& seen, const Request& request,
                                          Framing& framing) {
  if (seen.expects == 0 || !framing.http11) return {};  // HTTP/1.0 has no interim answers
  if (seen.expects > 1 || !same_name(seen.expect, "100-continue")) {
    return refuse(417, Errc::InvalidArgument, "Expect", "Expect: only '100-continue' is known");
  }
  framing.expect_continue = request.has_body;
  return {};
}

// The path and query of a target. An absolute form must name the host that Host names: two answers
// to the question who is asked are one too many.
std::expected<void, Refusal> split_target(std::string_view host, Request& request) {
  std::string_view rest = request.target;
  if (rest == "*") {
    if (request.method != Method::Options) {
      return malformed("target", "target '*': only OPTIONS may ask for it");
    }
  } else if (rest.front() != '/') {
    const std::size_t colon = rest.find("://");
    const std::string_view scheme = rest.substr(0, colon);
    if (colon == std::string_view::npos ||
        !(same_name(scheme, "http") || same_name(scheme, "https"))) {
      return malformed("target", "target: want a path that begins with '/'");
    }
    rest.remove_prefix(colon + 3);
    const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
    if (!same_name(rest.substr(0, end), host) || end == 0) {
      return malformed("target", "target: its host differs from the Host field");
    }
    rest.remove_prefix(end);
  }
  const std::size_t question = rest.find('?');
  request.path = rest.substr(0, question);
  if (request.path.empty()) request.path = "/";
  request.query =
      question == std::string_view::npos ? std::string_view() : rest.substr(question + 1);
  return {};
}

std::expected<void, Refusal> check_target(const Request& request, const Limits& limits) {
  if (request.target.size() > limits.target_bytes_max) {
    return refuse(414, Errc::TooLarge, "target",
                  fmt::format("target: {} bytes, at most {}", request.target.size(),
                              limits.target_bytes_max));
  }
  const bool plain = std::all_of(request.target.begin(), request.target.end(), [](char c) {
    return c > ' ' && c < '\x7f' && c != '#' && c != '\\';
  });
  if (request.target.empty() || !plain) {
    return malformed("target",
                     "target: only visible ASCII without '#' and '\\'; percent-encode the rest");
  }
  return {};
}

std::expected<void, Refusal> check_method(const Request& request) {
  constexpr std::size_t kMethodBytesMax = 32;
  if (request.method_text == "TRACE") {
    return refuse(405, Errc::Unsupported, "method", "method TRACE: not allowed here");
  }
  if (request.method_text.size() > kMethodBytesMax) {
    return refuse(501, Errc::Unsupported, "method", "method: at most 32 characters");
  }
  return {};
}

// Whether the request line is whole but for the version: "GET / HTTP/2.0", not "GET /a b HTTP/1.1".
bool names_a_version(std::string_view head) noexcept {
  const std::string_view line = head.substr(0, head.find('\r'));
  return std::count(line.begin(), line.end(), ' ') == 2 &&
         line.substr(line.rfind(' ') + 1).starts_with("HTTP/");
}

std::expected<void, Refusal> run_parser(std::string_view head, HeadParser& parser) {
  parser.eager(false);
  // The scanner has bounded the head already.
  parser.header_limit(
      static_cast<std::uint32_t>(std::min<std::size_t>(head.size() + 1, 1U << 30U)));
  parser.body_limit(boost::none);
  beast::error_code ec;
  const std::size_t used = parser.put(boost::asio::buffer(head.data(), head.size()), ec);
  if (ec == beast::http::error::bad_version && names_a_version(head)) {
    return refuse(505, Errc::Unsupported, "version", "only HTTP/1.0 and HTTP/1.1 are spoken here");
  }
  if (ec) return malformed("", "not an HTTP request: " + ec.message());
  if (used != head.size() || !parser.is_header_done()) {
    return malformed("", "not an HTTP request: the head ends early");
  }
  return {};
}

}  // namespace

std::expected<std::optional<std::size_t>, Refusal> HeadScanner::scan(std::string_view bytes,
                                                                     const Limits& limits) {
  const std::string_view known = bytes.substr(0, start_ + limits.header_bytes_max);
  while (seen_ < known.size()) {
    const void* found = std::memchr(known.data() + seen_, '\n', known.size() - seen_);
    if (found == nullptr) break;
    const auto end = static_cast<std::size_t>(static_cast<const char*>(found) - known.data());
    const std::string_view line = known.substr(line_, end - line_);
    if (line.empty() || line.back() != '\r') return malformed("", "a line ends without CR");
    if (std::memchr(line.data(), '\r', line.size() - 1) != nullptr) {
      return malformed("", "a CR without LF");
    }
    seen_ = line_ = end + 1;
    if (line.size() == 1) {
      if (lines_ > 0) return line_;
      if (start_ > 0) return malformed("", "empty lines instead of a request");
      start_ = line_;
      continue;
    }
    if (line.front() == ' ' || line.front() == '\t') {
      return malformed("", "a line begins with a space: folded fields are not accepted");
    }
    if (++lines_ > limits.headers_max + 1) {
      return refuse(431, Errc::TooLarge, "",
                    fmt::format("more than {} header fields", limits.headers_max));
    }
  }
  seen_ = known.size();
  // "GET " and " HTTP/1.1" are not part of the target; a longer method is refused anyway.
  constexpr std::size_t kAroundTarget = 48;
  if (lines_ == 0 && bytes.size() - start_ > limits.target_bytes_max + kAroundTarget) {
    return refuse(414, Errc::TooLarge, "target",
                  fmt::format("target: at most {} bytes", limits.target_bytes_max));
  }
  if (bytes.size() - start_ >= limits.header_bytes_max) {
    return refuse(431, Errc::TooLarge, "",
                  fmt::format("head of the request: at most {} bytes", limits.header_bytes_max));
  }
  return std::nullopt;
}

namespace {

// What the fields say, each alone and all together.
std::expected<Seen, Refusal> judge(const Limits& limits, Request& request, Framing& framing) {
  Seen seen;
  for (const Field& field : request.fields) look_at(field, seen);
  if (auto ok = check_method(request); !ok) return std::unexpected(ok.error());
  if (auto ok = check_target(request, limits); !ok) return std::unexpected(ok.error());
  if (auto ok = check_body(seen, request, framing); !ok) return std::unexpected(ok.error());
  if (auto ok = check_expect(seen, request, framing); !ok) return std::unexpected(ok.error());
  framing.keep_alive =
      framing.http11 ? !seen.connection_close : seen.connection_keep && !seen.connection_close;
  request.wants_websocket = framing.http11 && request.method == Method::Get &&
                            seen.connection_upgrade && same_name(seen.upgrade, "websocket");
  return seen;
}

// What holds for every reader: the grammar, the length of the target, and the framing of the body.
std::expected<Seen, Refusal> read_common(std::string_view head, const Limits& limits,
                                         Request& request, Framing& framing) {
  request.fields.clear();
  request.content_length.reset();
  request.has_body = false;
  request.wants_websocket = false;
  framing = Framing();
  HeadParser parser(request, framing);
  if (auto parsed = run_parser(head, parser); !parsed) return std::unexpected(parsed.error());
  return judge(limits, request, framing);
}

// Who is asked, and for what.
std::expected<void, Refusal> find_place(const Seen& seen, Request& request,
                                        const Framing& framing) {
  if (request.method_text == "CONNECT") {
    return refuse(501, Errc::Unsupported, "method", "method CONNECT: this is not a proxy");
  }
  if (auto checked = check_host(seen, framing.http11); !checked) return checked;
  return split_target(seen.host, request);
}

}  // namespace

std::expected<void, Refusal> read_head(std::string_view head, const Limits& limits,
                                       Request& request, Framing& framing) {
  const auto seen = read_common(head, limits, request, framing);
  if (!seen) return std::unexpected(seen.error());
  return find_place(*seen, request, framing);
}

std::expected<void, Refusal> read_parts(const Limits& limits, Request& request, Framing& framing) {
  framing = Framing();
  request.method = method_of(beast::http::string_to_verb(request.method_text));
  const auto seen = judge(limits, request, framing);
  if (!seen) return std::unexpected(seen.error());
  request.wants_websocket = false;
  if (request.target.front() != '/' && request.target != "*") {
    return malformed(":path", ":path: want a path that begins with '/'");
  }
  return find_place(*seen, request, framing);
}

std::expected<void, Refusal> read_proxy_head(std::string_view head, const Limits& limits,
                                             Request& request, Framing& framing) {
  const auto seen = read_common(head, limits, request, framing);
  if (!seen) return std::unexpected(seen.error());
  request.path.clear();
  request.query.clear();
  // A second Host would be dropped when the head is written anew; who sends it means to be read in
  // two ways.
  if (seen->hosts > 1) return malformed("Host", "Host: sent twice; send it once");
  return {};
}

}  // namespace caisson::http
