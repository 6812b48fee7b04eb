#include "http/client.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "http/client_link.h"
#include "http/event_stream.h"

namespace caisson::http {
namespace {

constexpr std::uint16_t kDefaultPort = 80;
constexpr std::size_t kUploadBytes = 256UL * 1024;

bool is_target(std::string_view target) noexcept {
  if (!target.starts_with('/')) return false;
  for (const char c : target) {
    if (c <= ' ' || c >= '\x7f') return false;
  }
  return true;
}

Client::Sink collect_into(std::string& body, std::size_t bytes_max) {
  return [&body, bytes_max](std::span<const std::byte> bytes) -> Result<void> {
    if (body.size() + bytes.size() > bytes_max) {
      return failure(Errc::TooLarge,
                     fmt::format("the server's answer is larger than {} bytes", bytes_max));
    }
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  };
}

}  // namespace

std::string_view ClientAnswer::field(std::string_view name) const noexcept {
  for (const Field& one : fields) {
    if (same_name(one.name, name)) return one.value;
  }
  return {};
}

struct Client::Place {
  std::string unix_path;  // or, when empty:
  std::string host;
  std::uint16_t port = kDefaultPort;
  std::string authority;  // for Host
};

Client::Client(std::unique_ptr<Place> place, ClientOptions options)
    : place_(std::move(place)), options_(std::move(options)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::make(std::string_view url, ClientOptions options) {
  auto place = std::make_unique<Place>();
  if (!is_field_value(options.token)) {
    return bad_field("token", "token: it has control characters; copy it again");
  }
  if (url.starts_with("unix:")) {
    place->unix_path = url.substr(url.starts_with("unix://") ? 7 : 5);
    place->authority = "localhost";
    return Client(std::move(place), std::move(options));
  }
  if (url.starts_with("https://")) {
    return failure(Errc::Unsupported,
                   fmt::format("url '{}': this client speaks plain HTTP only; reach the server "
                               "through an SSH tunnel or a local proxy that ends TLS",
                               url));
  }
  const auto wrong = [&url] {
    return bad_field("url", fmt::format("url '{}': want http://HOST:PORT or unix:PATH", url));
  };
  if (!url.starts_with("http://")) return wrong();
  std::string_view rest = url.substr(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty() || rest.find_first_of("/?#@ ") != std::string_view::npos ||
      !is_field_value(rest)) {
    return wrong();
  }
  place->authority = rest;
  const std::size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string_view::npos) return wrong();
  const std::size_t colon = rest.find(':', bracket);
  place->host = rest.substr(0, colon);
  if (colon != std::string_view::npos) {
    const std::string_view port = rest.substr(colon + 1);
    const auto read = std::from_chars(port.data(), port.data() + port.size(), place->port);
    if (read.ec != std::errc() || read.ptr != port.data() + port.size() || place->port == 0) {
      return wrong();
    }
  }
  if (place->host.starts_with('[')) place->host = place->host.substr(1, place->host.size() - 2);
  if (place->host.empty()) return wrong();
  return Client(std::move(place), std::move(options));
}

Result<std::unique_ptr<ClientLink>> Client::connect() {
  UniqueFd fd;
  if (!place_->unix_path.empty()) {
    fd = TRY(ClientLink::connect_unix(place_->unix_path));
  } else {
    fd = TRY(ClientLink::connect_tcp(place_->host, place_->port, options_.connect_timeout));
  }
  return std::make_unique<ClientLink>(std::move(fd), options_.stall_timeout);
}

Result<void> Client::ready() {
  if (link_ && link_->fresh()) return {};
  link_ = TRY(connect());
  return {};
}

Result<std::string> Client::head_of(std::string_view method, std::string_view target,
                                    std::span<const Field> fields, std::string_view framing) const {
  if (!is_field_name(method)) return bad_field("method", "method: not a word");
  if (!is_target(target)) {
    return bad_field("target", fmt::format("target '{}': want an encoded path", target));
  }
  std::string head = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: caisson\r\n", method,
                                 target, place_->authority);
  if (!options_.token.empty()) head += "Authorization: Bearer " + options_.token + "\r\n";
  for (const Field& field : fields) {
    if (!is_field_name(field.name) || !is_field_value(field.value)) {
      return bad_field(field.name, "a header field has a control character in it");
    }
    head += field.name + ": " + field.value + "\r\n";
  }
  head.append(framing).append("\r\n");
  return head;
}

Result<ClientAnswer> Client::receive(std::string_view method, const OnHead& on_head,
                                     const Sink& sink) {
  // Whatever ends this early leaves bytes on the connection that belong to nobody.
  const std::unique_ptr<ClientLink> link = std::move(link_);
  ClientAnswer answer = TRY(link->read_head());
  if (on_head) on_head(answer);
  const Sink collect = collect_into(answer.body, kAnswerBodyBytesMax);
  const Sink& to = answer.ok() && sink ? sink : collect;
  const bool again =
      TRY(link->read_body(method, answer, [&to](std::string_view bytes) -> Result<bool> {
        TRY(to(std::as_bytes(std::span(bytes.data(), bytes.size()))));
        return true;
      }));
  if (again) link_ = std::make_unique<ClientLink>(std::move(*link));
  return answer;
}

Result<ClientAnswer> Client::request(std::string_view method, std::string_view target,
                                     std::span<const Field> fields, std::string_view body,
                                     std::size_t bytes_max) {
  std::string collected;
  ClientAnswer answer =
      TRY(download(method, target, fields, body, {}, collect_into(collected, bytes_max)));
  if (answer.ok()) answer.body = std::move(collected);
  return answer;
}

Result<ClientAnswer> Client::download(std::string_view method, std::string_view target,
                                      std::span<const Field> fields, std::string_view body,
                                      const OnHead& on_head, const Sink& sink) {
  const bool bare = body.empty() && (method == "GET" || method == "HEAD" || method == "DELETE");
  const std::string framing =
      bare ? std::string() : fmt::format("Content-Length: {}\r\n", body.size());
  std::string out = TRY(head_of(method, target, fields, framing));
  out += body;
  TRY(ready());
  const auto sent = link_->send(out);
  // A server that refuses a long body may close before it has read it; its answer says why.
  auto answer = receive(method, on_head, sink);
  if (!answer && !sent) return std::unexpected(sent.error());
  return answer;
}

Result<void> Client::send_body(std::optional<std::uint64_t> length, const Source& source) {
  std::vector<std::byte> block(kUploadBytes);
  std::uint64_t sent = 0;
  for (;;) {
    if (link_->readable()) return failure(Errc::Gone, "the server answered before the end");
    const std::size_t size = TRY(source(block));
    if (size == 0) break;
    if (length && sent + size > *length) {
      return bad_field("body", "the upload is longer than was announced: did it grow?");
    }
    const std::string_view bytes(reinterpret_cast<const char*>(block.data()), size);
    if (!length) TRY(link_->send(fmt::format("{:x}\r\n", size)));
    TRY(link_->send(bytes));
    if (!length) TRY(link_->send("\r\n"));
    sent += size;
  }
  if (length && sent < *length) {
    return bad_field("body", "the upload is shorter than was announced: did it shrink?");
  }
  if (!length) TRY(link_->send("0\r\n\r\n"));
  return {};
}

Result<ClientAnswer> Client::upload(std::string_view method, std::string_view target,
                                    std::span<const Field> fields,
                                    std::optional<std::uint64_t> length, const Source& source) {
  const std::string framing = length ? fmt::format("Content-Length: {}\r\n", *length)
                                     : std::string("Transfer-Encoding: chunked\r\n");
  const std::string head = TRY(head_of(method, target, fields, framing));
  TRY(ready());
  TRY(link_->send(head));
  const auto sent = send_body(length, source);
  if (!sent && sent.error().code != Errc::Gone) {
    link_.reset();
    return std::unexpected(sent.error());
  }
  auto answer = receive(method, {}, {});
  if (!sent) link_.reset();
  if (!answer && !sent) return std::unexpected(sent.error());
  return answer;
}

Result<ClientAnswer> Client::events(std::string_view target, std::span<const Field> fields,
                                    std::optional<milliseconds> quiet,
                                    const std::function<bool(const ClientEvent&)>& take) {
  const std::string head = TRY(head_of("GET", target, fields, "Accept: text/event-stream\r\n"));
  // A stream has its own connection: it usually ends by our leaving.
  const auto link = TRY(connect());
  TRY(link->send(head));
  ClientAnswer answer = TRY(link->read_head());
  EventStream stream;
  const Sink collect = collect_into(answer.body, kAnswerBodyBytesMax);
  link->set_patience(quiet ? quiet : options_.stall_timeout);
  const auto read = link->read_body("GET", answer, [&](std::string_view bytes) -> Result<bool> {
    if (answer.ok()) return stream.feed(bytes, take);
    TRY(collect(std::as_bytes(std::span(bytes.data(), bytes.size()))));
    return true;
  });
  if (!read && !(quiet && read.error().code == Errc::TimedOut)) {
    return std::unexpected(read.error());
  }
  return answer;
}

Result<Client::Upgrade> Client::websocket(std::string_view target, std::span<const Field> fields,
                                          std::string_view protocol) {
  const std::string key = TRY(websocket_key());
  std::string framing = fmt::format(
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Key: {}\r\n",
      key);
  if (!is_field_value(protocol)) return bad_field("protocol", "protocol: not a word");
  if (!protocol.empty()) framing += fmt::format("Sec-WebSocket-Protocol: {}\r\n", protocol);
  const std::string head = TRY(head_of("GET", target, fields, framing));
  const auto link = TRY(connect());
  TRY(link->send(head));
  Upgrade upgrade;
  upgrade.answer = TRY(link->read_head());
  if (upgrade.answer.status != 101) {
    const Sink collect = collect_into(upgrade.answer.body, kAnswerBodyBytesMax);
    TRY(link->read_body("GET", upgrade.answer, [&collect](std::string_view bytes) -> Result<bool> {
      TRY(collect(std::as_bytes(std::span(bytes.data(), bytes.size()))));
      return true;
    }));
    return upgrade;
  }
  if (upgrade.answer.field("Sec-WebSocket-Accept") != websocket_accept(key)) {
    return failure(Errc::Protocol, "WebSocket: the server did not understand the handshake");
  }
  upgrade.socket = std::make_unique<ClientSocket>(link->release(), link->take_rest());
  return upgrade;
}

}  // namespace caisson::http
