#include "egress/gate/tool_fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "egress/gate/connection.h"
#include "egress/gate/http_heads.h"
#include "egress/gate/http_relay.h"
#include "egress/gate/tls_client.h"
#include "egress/wire/proxy_target.h"
#include "http/chunk_decoder.h"
#include "http/hop_fields.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

constexpr http::Limits kAnswerLimits{.header_bytes_max = kAnswerHeadBytesMax, .headers_max = 200};
constexpr std::string_view kHttps = "https://";

struct Place {
  ProxyTarget target;
  bool tls = false;
};

std::string lower_scheme(std::string_view url) {
  std::string out(url);
  const std::size_t end = std::min(out.find("://"), std::size_t{8});
  for (std::size_t i = 0; i < std::min(end, out.size()); ++i) {
    if (out[i] >= 'A' && out[i] <= 'Z') out[i] = static_cast<char>(out[i] - 'A' + 'a');
  }
  return out;
}

// The same strict reader for both schemes.
std::expected<Place, TargetRefusal> read_url(std::string_view text) {
  const std::string url = lower_scheme(text);
  const bool tls = url.starts_with(kHttps);
  auto target = parse_absolute_target(tls ? "http://" + url.substr(kHttps.size()) : url);
  if (!target) return std::unexpected(target.error());
  if (tls) {
    const std::string_view rest = std::string_view(url).substr(kHttps.size());
    const bool has_port = rest.substr(0, rest.find_first_of("/?")).find(':') != std::string::npos;
    if (!has_port) target->port = kHttpsPort;
  }
  return Place{std::move(*target), tls};
}

Result<void> check(const ToolRequest& request) {
  if (!http::is_field_name(request.method) || request.method.size() > 32 ||
      request.method == "CONNECT" || request.method == "TRACE") {
    return bad_field("method", "method: want one of HTTP's, such as GET or POST");
  }
  if (request.body.size() > kToolBodyBytesMax) {
    return bad_field(
        "body", fmt::format("body: {} bytes, at most {}", request.body.size(), kToolBodyBytesMax));
  }
  if (request.fields.size() > kToolFieldsMax) {
    return bad_field("headers",
                     fmt::format("headers: {}, at most {}", request.fields.size(), kToolFieldsMax));
  }
  std::size_t bytes = 0;
  for (const http::Field& field : request.fields) {
    bytes += field.name.size() + field.value.size();
    if (!http::is_field_name(field.name) || !http::is_field_value(field.value)) {
      return bad_field("headers", "headers: a name or value that HTTP does not allow");
    }
  }
  if (bytes > kToolFieldBytesMax) {
    return bad_field("headers",
                     fmt::format("headers: {} bytes, at most {}", bytes, kToolFieldBytesMax));
  }
  return {};
}

constexpr std::size_t kTailBytes = 128;  // Content-Length and Connection

std::string message_of(const ToolRequest& request, const Place& place, const Injection& injection) {
  const std::uint16_t usual = place.tls ? kHttpsPort : kHttpPort;
  std::string out = fmt::format("{} {} HTTP/1.1\r\nHost: {}", request.method, place.target.path,
                                place.target.host.text());
  if (place.target.port != usual) out += fmt::format(":{}", place.target.port);
  out += "\r\n";
  const http::HopFields hop(request.fields);
  for (const http::Field& field : request.fields) {
    if (hop.drops(field.name) || http::same_name(field.name, "host") ||
        http::same_name(field.name, "expect") || injection.replaces(field.name)) {
      continue;
    }
    // What is packed cannot be searched for a secret.
    if (!injection.empty() && http::same_name(field.name, "accept-encoding")) continue;
    out += fmt::format("{}: {}\r\n", field.name, field.value);
  }
  if (!injection.empty()) out += "Accept-Encoding: identity\r\n";
  std::size_t secrets = 0;
  for (const http::Field& field : injection.fields())
    secrets += field.name.size() + field.value.size() + 4;
  out.reserve(out.size() + secrets + kTailBytes + request.body.size());  // no copy is left behind
  for (const http::Field& field : injection.fields())
    out.append(field.name).append(": ").append(field.value).append("\r\n");
  const bool has_length = !request.body.empty() || request.method == "POST" ||
                          request.method == "PUT" || request.method == "PATCH";
  if (has_length) out += fmt::format("Content-Length: {}\r\n", request.body.size());
  out += "Connection: close\r\n\r\n";
  out += request.body;
  return out;
}

// The host's bytes, with or without TLS around them.
class Link {
 public:
  Link(Connection& connection, TlsClient* tls) : c_(connection), tls_(tls) {}

  asio::awaitable<Result<void>> write(std::string_view bytes) {
    if (tls_ != nullptr) co_return co_await tls_->write(bytes);
    if (co_await c_.send_up(bytes)) co_return Result<void>();
    co_return gone();
  }
  // False: the end.
  asio::awaitable<Result<bool>> more() {
    if (tls_ != nullptr) co_return co_await tls_->read(in);
    const Fill filled = co_await c_.fill_up_in();
    if (filled == Fill::Broken) co_return gone();
    in += std::exchange(c_.up_in, {});
    co_return filled == Fill::More;
  }
  std::string in;

 private:
  [[nodiscard]] std::unexpected<Error> gone() const {
    if (c_.deadline.passed()) return failure(Errc::TimedOut, "the host does not answer in time");
    return failure(Errc::Gone, "the host has left");
  }
  Connection& c_;
  TlsClient* tls_;
};

asio::awaitable<Result<AnswerHead>> read_head(Link& link, std::string_view method) {
  for (int interim = 0; interim <= kInterimAnswersMax; ++interim) {
    http::HeadScanner scanner;
    std::optional<std::size_t> size;
    while (!size) {
      const auto scanned = scanner.scan(link.in, kAnswerLimits);
      if (!scanned || scanner.skipped() > 0) {
        co_return failure(Errc::Protocol, "the host's answer is not HTTP");
      }
      size = *scanned;
      if (size) break;
      const auto more = co_await link.more();
      if (!more) co_return std::unexpected(more.error());
      if (!*more) co_return failure(Errc::Gone, "the host closed the connection");
    }
    auto head = read_answer_head(std::string_view(link.in).substr(0, *size), method);
    link.in.erase(0, *size);
    if (!head || head->answer.status >= 200) co_return head;
    if (head->answer.status == 101) break;
  }
  co_return failure(Errc::Protocol, "the host sends no answer of its own");
}

// True: that was all of the body.
Result<bool> take_bytes(Link& link, const AnswerHead& head, http::ChunkDecoder& decoder,
                        std::string& body) {
  if (head.framing.kind != http::BodyKind::Chunked) {
    body += std::exchange(link.in, {});
    return head.framing.kind == http::BodyKind::Length && body.size() >= head.framing.length;
  }
  std::string plain(link.in.size(), '\0');
  const auto step = TRY(decoder.decode(link.in, std::as_writable_bytes(std::span(plain))));
  link.in.erase(0, step.consumed);
  body.append(plain, 0, step.produced);
  return step.done;
}

asio::awaitable<Result<ToolAnswer>> read_answer(Link& link, std::string_view method) {
  auto head = co_await read_head(link, method);
  if (!head) co_return std::unexpected(head.error());
  ToolAnswer answer;
  answer.status = head->answer.status;
  http::ChunkDecoder decoder;
  bool done = head->framing.kind == http::BodyKind::None;
  while (!done && answer.body.size() <= kToolBodyBytesMax) {
    const auto taken = take_bytes(link, *head, decoder, answer.body);
    if (!taken) co_return std::unexpected(taken.error());
    done = *taken;
    if (done || answer.body.size() > kToolBodyBytesMax) break;
    const auto more = co_await link.more();
    if (!more) co_return std::unexpected(more.error());
    if (*more) continue;
    if (head->framing.kind != http::BodyKind::ToClose) {
      co_return failure(Errc::Gone, "the host broke off in the middle of its answer");
    }
    done = true;
  }
  if (head->framing.kind == http::BodyKind::Length && answer.body.size() > head->framing.length) {
    answer.body.resize(static_cast<std::size_t>(head->framing.length));
  }
  answer.fields = std::move(head->answer.fields);
  co_return answer;
}

Asked ask(const ToolRequest& request, const std::expected<Place, TargetRefusal>& place) {
  Asked asked;
  asked.way = Way::Tool;
  asked.method = request.method;
  asked.request.identity = Identity::Confirmed;
  asked.request.sight = Sight::Readable;
  if (!place) {
    asked.request.host = place.error();
    return asked;
  }
  asked.host = place->target.host.text();
  asked.path = place->target.path.substr(0, place->target.path.find('?'));
  asked.request.host = place->target.host;
  asked.request.port = place->target.port;
  asked.request.first = HttpSeen{request.method, place->target.path, std::nullopt};
  asked.request.verified = place->tls;
  return asked;
}

Result<std::unique_ptr<TlsClient>> open_tls(const HostName& host, Connection& connection) {
  GateCore& core = *connection.core;
  if (!core.trust) core.trust = TRY(TlsTrust::load(core.trust_store));
  return TlsClient::make(core.trust, host, connection);
}

// Cut behind the search for secrets, and well before the end of what was searched: half a secret at
// the edge is found by no search.
constexpr std::size_t kSecretMargin = 16UL * 1024;
void cut(ToolAnswer& answer, std::size_t margin) {
  answer.truncated = answer.body.size() > kToolBodyBytesMax;
  if (answer.truncated) answer.body.resize(kToolBodyBytesMax - margin);
}

asio::awaitable<Result<ToolAnswer>> converse(Connection& connection, const ToolRequest& request,
                                             const Place& place, const Injection& injection) {
  std::unique_ptr<TlsClient> tls;
  if (place.tls) {
    auto made = open_tls(place.target.host, connection);
    if (!made) co_return std::unexpected(made.error());
    tls = std::move(*made);
    const auto shaken = co_await tls->handshake();
    if (!shaken) co_return std::unexpected(shaken.error());
  }
  Link link(connection, tls.get());
  std::string bytes = message_of(request, place, injection);
  const auto sent = co_await link.write(bytes);
  if (!injection.empty()) wipe(bytes);
  if (!sent) co_return std::unexpected(sent.error());
  auto answer = co_await read_answer(link, request.method);
  if (answer && !injection.empty()) {
    answer->body = injection.redactor().scrub(answer->body);
    for (http::Field& field : answer->fields) field.value = injection.redactor().scrub(field.value);
  }
  if (answer) cut(*answer, injection.empty() ? 0 : kSecretMargin);
  co_return answer;
}

}  // namespace

asio::awaitable<Result<ToolAnswer>> fetch_for_tool(std::shared_ptr<GateCore> core,
                                                   ToolRequest request) {
  if (core->closed) co_return failure(Errc::Gone, "the sandbox's way out is closed");
  if (const auto checked = check(request); !checked) co_return std::unexpected(checked.error());
  if (core->connections.size() >= kGateConnectionsMax) {
    co_return failure(Errc::Exhausted, "the sandbox has too many connections open");
  }
  const auto connection = std::make_shared<Connection>(core);
  const auto place = read_url(request.url);
  const Asked asked = ask(request, place);
  Verdict verdict = co_await connection->admit(asked);
  if (verdict.outcome == Outcome::Deny) {
    const bool limited = verdict.reason == Reason::RateLimited;
    if (!place) co_return bad_field("url", "url: " + verdict.text);
    // Which address a name has on our side is not for everybody who may ask.
    const std::string told = verdict.reason == Reason::ForbiddenAddress
                                 ? asked.host + ": an address of it is not public"
                                 : verdict.text;
    co_return failure(limited ? Errc::Exhausted : Errc::Denied, told);
  }
  const auto injection =
      Injection::make(core->ledger.rules().all()[*verdict.rule_index].wanted.inject, core->secrets);
  if (!injection) co_return failure(Errc::Denied, injection.error().message);
  const auto reached = co_await connection->reach(asked, std::move(verdict));
  if (!reached) co_return std::unexpected(reached.error());
  connection->deadline.set(request.limit);
  auto answer = co_await converse(*connection, request, *place, *injection);
  if (connection->is_cut()) {
    co_return failure(Errc::Gone, "the connection was cut: a limit of its rule, or other rules");
  }
  co_return answer;
}

}  // namespace caisson::egress
