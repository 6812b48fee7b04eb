#include "egress/gate/gateway_call.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "egress/gate/dial.h"
#include "egress/gate/http_relay.h"
#include "http/client_link.h"
#include "http/hop_fields.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

constexpr http::Limits kAnswerLimits{.header_bytes_max = kAnswerHeadBytesMax, .headers_max = 200};
constexpr seconds kBodyPatience{60};
constexpr std::size_t kPiece = 16UL * 1024;
constexpr std::string_view kLastChunk = "0\r\n\r\n";
constexpr milliseconds kEndPatience{500};

// What a guest says about itself, how the answer is packed, and what must be ours.
bool is_ours(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "host",   "expect",         "authorization",   "x-api-key", "api-key",
      "cookie", "content-length", "accept-encoding", "forwarded", "x-forwarded-for"};
  return std::ranges::any_of(kNames,
                             [&](std::string_view one) { return http::same_name(one, name); });
}

policy::HeaderInjection key_field(const GatewayProvider& provider) {
  if (provider.provider == Provider::OpenAi)
    return {"Authorization", provider.key_secret, "Bearer "};
  return {"x-api-key", provider.key_secret, ""};
}

std::string json_answer(unsigned status, std::string_view body, bool keep, std::string_view more) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}"
      "Connection: {}\r\n\r\n{}",
      status, http::reason_of(status), body.size(), more, keep ? "keep-alive" : "close", body);
}

std::string as_chunk(std::string_view bytes) {
  std::string out = fmt::format("{:x}\r\n", bytes.size());
  out.append(bytes).append("\r\n");
  return out;
}

bool is_counted(ModelEndpoint endpoint) {
  return endpoint != ModelEndpoint::Free && endpoint != ModelEndpoint::Uncounted;
}

}  // namespace

GatewayCall::GatewayCall(Connection& connection, const http::Request& request,
                         const http::Framing& framing, Gateway::Found found)
    : c_(connection),
      gateway_(*connection.core->gateway),
      request_(request),
      framing_(framing),
      provider_(*found.provider),
      path_(std::move(found.path)),
      endpoint_(endpoint_of(provider_.provider, request.method_text, path_)) {
  told_.provider = provider_.provider;
  told_.path = path_.substr(0, path_.find('?'));
}

GatewayCall::~GatewayCall() {
  gateway_.bytes_held -= held_;
  if (reservation_ && !left_) reservation_->release();
  if (pump_) pump_->abort();
}

// ----------------------------------------------------------------------------------------------
// the request

bool GatewayCall::hold(std::size_t bytes) {
  if (body_.size() + bytes > kRequestBytesMax || gateway_.bytes_held + bytes > kGatewayBytesMax)
    return false;
  gateway_.bytes_held += bytes;
  held_ += bytes;
  return true;
}

asio::awaitable<bool> GatewayCall::more_body() {
  const Fill filled = co_await c_.fill_in();
  co_return filled == Fill::More;
}

asio::awaitable<GatewayCall::Step> GatewayCall::read_body() {
  if (!request_.has_body) co_return Step();
  const Refused large{413, "request_too_large",
                      fmt::format("the request, or all of this sandbox together, is larger than "
                                  "{} bytes",
                                  kRequestBytesMax)};
  const Refused broken{400, "invalid_request_error", "the body of the request is not whole"};
  if (framing_.expect_continue && c_.in.empty()) {
    if (!co_await c_.send_client("HTTP/1.1 100 Continue\r\n\r\n"))
      co_return std::unexpected(broken);
  }
  http::ChunkDecoder decoder;
  const std::uint64_t length = request_.content_length.value_or(0);
  if (!framing_.chunked && length > kRequestBytesMax) co_return std::unexpected(large);
  // For the whole body, however slowly it drips: it is held in our memory until it leaves.
  c_.deadline.set(kBodyPatience);
  for (;;) {
    bool done = false;
    if (framing_.chunked) {
      std::string plain(c_.in.size(), '\0');
      const auto step = decoder.decode(c_.in, std::as_writable_bytes(std::span(plain)));
      if (!step) co_return std::unexpected(broken);
      if (!hold(step->produced)) co_return std::unexpected(large);
      body_.append(plain, 0, step->produced);
      c_.in.erase(0, step->consumed);
      done = step->done;
    } else {
      const auto take =
          static_cast<std::size_t>(std::min<std::uint64_t>(length - body_.size(), c_.in.size()));
      if (!hold(take)) co_return std::unexpected(large);
      body_.append(c_.in, 0, take);
      c_.in.erase(0, take);
      done = body_.size() == length;
    }
    if (done) co_return Step();
    if (!co_await more_body()) co_return std::unexpected(broken);
  }
}

// What it may cost at most is set aside, or it does not leave.
GatewayCall::Step GatewayCall::pay() {
  if (!is_counted(endpoint_)) return {};
  const auto facts = read_request(endpoint_, body_);
  if (!facts) return std::unexpected(Refused{400, "invalid_request_error", facts.error().message});
  facts_ = *facts;
  told_.model = facts_.model;
  const auto price = price_for(gateway_.prices, facts_.model, gateway_.budget->money_limited());
  if (!price) return std::unexpected(Refused{403, "permission_error", price.error().message});
  price_ = *price;
  if (facts_.usage_not_asked) {
    auto asked = with_usage_asked(body_);
    if (!asked)
      return std::unexpected(Refused{400, "invalid_request_error", asked.error().message});
    body_ = std::move(*asked);
  }
  auto reserved = gateway_.budget->reserve(amount_before(facts_, price_));
  if (!reserved) {
    const BudgetRefusal& why = reserved.error();
    return std::unexpected(Refused{status_of(why), "", guest_message(why), why});
  }
  reservation_ = std::move(*reserved);
  return {};
}

std::string GatewayCall::head() const {
  std::string path = path_;
  const std::string& prefix = provider_.path_prefix;
  if (!prefix.empty() && !path.starts_with(prefix + "/")) path = prefix + path;
  std::string out =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request_.method_text, path, provider_.host);
  const http::HopFields hop(request_.fields);
  for (const http::Field& field : request_.fields) {
    if (hop.drops(field.name) || is_ours(field.name)) continue;
    out.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  for (const http::Field& field : key_.fields())
    out.append(field.name).append(": ").append(field.value).append("\r\n");
  // An answer that is packed could not be counted.
  out.append("Accept-Encoding: identity\r\nConnection: close\r\n");
  if (request_.has_body || request_.method_text == "POST")
    out.append(fmt::format("Content-Length: {}\r\n", body_.size()));
  out.append("\r\n");
  return out;
}

// ----------------------------------------------------------------------------------------------
// the host

asio::awaitable<GatewayCall::Step> GatewayCall::reach() {
  const Refused unreachable{502, "api_error", "the provider cannot be reached"};
  std::vector<IpAddress> addresses;
  if (provider_.address) {
    addresses.push_back(*provider_.address);
  } else {
    Resolved resolved = co_await c_.core->resolver->resolve(*provider_.name);
    addresses = std::move(resolved.addresses);
  }
  if (addresses.empty()) co_return std::unexpected(unreachable);
  const auto dialled = co_await dial(c_.upstream, c_.deadline, std::move(addresses), provider_.port,
                                     c_.core->times.dial);
  if (!dialled || c_.is_cut()) co_return std::unexpected(unreachable);
  if (!provider_.tls) co_return Step();
  const auto failed = [](const Error& error) {
    return std::unexpected(Refused{502, "api_error", "the provider: " + error.message});
  };
  if (!c_.core->trust) {
    auto trust = TlsTrust::load(c_.core->trust_store);
    if (!trust) co_return failed(trust.error());
    c_.core->trust = std::move(*trust);
  }
  auto session = client_session(*c_.core->trust, *provider_.name);
  if (!session) co_return failed(session.error());
  pump_ = std::make_shared<TlsPump>(c_.core->executor, std::move(*session));
  c_.when_cut = [pump = pump_] { pump->abort(); };
  UniqueFd wire(::fcntl(c_.upstream.fd(), F_DUPFD_CLOEXEC, 3));
  if (!wire) co_return std::unexpected(unreachable);
  auto clear = pump_->open(std::move(wire));
  if (!clear) co_return failed(clear.error());
  if (const auto put = c_.upstream.assign(std::move(*clear)); !put) co_return failed(put.error());
  const auto shaken = co_await pump_->handshake(c_.core->times.first);
  if (!shaken) co_return failed(shaken.error());
  pump_->run();
  co_return Step();
}

asio::awaitable<bool> GatewayCall::send_up(std::string_view bytes) {
  c_.core->counts.bytes_up += bytes.size();
  while (!bytes.empty()) {
    const Io sent = c_.upstream.try_write(bytes);
    bytes.remove_prefix(sent.bytes);
    if (sent.state == IoState::Broken) co_return false;
    if (sent.state != IoState::WouldBlock) {
      co_await c_.breathe(sent.bytes);
      if (c_.is_cut()) co_return false;
      continue;
    }
    if (!co_await c_.upstream.wait_write() || c_.is_cut()) co_return false;
  }
  co_return true;
}

asio::awaitable<Fill> GatewayCall::fill() {
  for (;;) {
    const std::size_t had = in_.size();
    in_.resize(had + kPiece);
    const Io got = c_.upstream.try_read(in_.data() + had, kPiece);
    in_.resize(had + got.bytes);
    c_.core->counts.bytes_down += got.bytes;
    if (got.state == IoState::Moved) {
      co_await c_.breathe(got.bytes);
      co_return c_.is_cut() ? Fill::Broken : Fill::More;
    }
    if (got.state == IoState::End) co_return Fill::End;
    if (got.state == IoState::Broken) co_return Fill::Broken;
    if (!co_await c_.upstream.wait_read() || c_.is_cut()) co_return Fill::Broken;
  }
}

asio::awaitable<GatewayCall::Step> GatewayCall::ask() {
  c_.deadline.set(c_.core->times.answer);
  std::string bytes = head();
  left_ = true;
  bool sent = co_await send_up(bytes);
  wipe(bytes);
  sent = sent && co_await send_up(body_);
  const Refused gone{502, "api_error", "the provider has left before it answered"};
  if (!sent) co_return std::unexpected(gone);
  for (int interim = 0; interim <= kInterimAnswersMax; ++interim) {
    http::HeadScanner scanner;
    std::optional<std::size_t> size;
    while (!size) {
      const auto scanned = scanner.scan(in_, kAnswerLimits);
      if (!scanned || scanner.skipped() > 0) co_return std::unexpected(gone);
      size = *scanned;
      if (size) break;
      if (co_await fill() == Fill::More) continue;
      if (c_.deadline.passed())
        co_return std::unexpected(Refused{504, "api_error", "the provider does not answer"});
      co_return std::unexpected(gone);
    }
    auto read = read_answer_head(std::string_view(in_).substr(0, *size), request_.method_text);
    in_.erase(0, *size);
    if (!read) co_return std::unexpected(gone);
    if (read->answer.status < 200) continue;
    answer_ = std::move(*read);
    co_return Step();
  }
  co_return std::unexpected(gone);
}

// ----------------------------------------------------------------------------------------------
// the answer

asio::awaitable<bool> GatewayCall::pass_piece(std::string_view piece, bool chunked) {
  c_.deadline.set(c_.core->times.quiet);
  if (reader_) {
    reader_->feed(piece);
    const auto kept =
        reservation_->reach(amount_during(facts_, reader_->output_tokens_seen(), price_));
    if (!kept) co_return co_await stop_stream(kept.error(), chunked);
  }
  const std::string clean = scrub_ ? scrub_->feed(piece) : std::string(piece);
  if (clean.empty()) co_return true;
  if (!chunked) co_return co_await c_.send_client(clean);
  const std::string chunk = as_chunk(clean);
  co_return co_await c_.send_client(chunk);
}

// The last thing that a guest reads of a stream that it cannot pay for any more.
asio::awaitable<bool> GatewayCall::stop_stream(const BudgetRefusal& refusal, bool chunked) {
  stopped_ = true;
  told_.refusal = to_string(refusal);
  const bool events = framing_of(answer_.answer.field("Content-Type")) == Framing::EventStream;
  if (events) {
    std::string last = scrub_ ? scrub_->finish() : std::string();
    last += error_event(provider_.provider, refusal);
    const std::string bytes = chunked ? as_chunk(last) : last;
    (void)co_await c_.send_client(bytes);
  }
  if (gateway_.exceeded) gateway_.exceeded(refusal);
  co_return events;
}

asio::awaitable<bool> GatewayCall::pass_body(const AnswerHead& head, bool chunked) {
  http::ChunkDecoder decoder;
  std::uint64_t left = head.framing.length;
  const http::BodyKind kind = head.framing.kind;
  bool done = kind == http::BodyKind::None || (kind == http::BodyKind::Length && left == 0);
  while (!done && !stopped_) {
    if (!in_.empty()) {
      std::string piece;
      if (kind == http::BodyKind::Chunked) {
        piece.resize(in_.size());
        const auto step = decoder.decode(in_, std::as_writable_bytes(std::span(piece)));
        if (!step) co_return false;
        in_.erase(0, step->consumed);
        piece.resize(step->produced);
        done = step->done;
      } else {
        piece = std::exchange(in_, {});
        if (kind == http::BodyKind::Length) {
          piece.resize(std::min<std::uint64_t>(piece.size(), left));
          left -= piece.size();
          done = left == 0;
        }
      }
      if (!piece.empty() && !co_await pass_piece(piece, chunked)) co_return false;
      if (done || stopped_) break;
    }
    const Fill filled = co_await fill();
    if (filled == Fill::Broken) co_return false;
    if (filled == Fill::End) {
      if (kind != http::BodyKind::ToClose) co_return false;
      done = true;
    }
  }
  const std::string rest = scrub_ && !stopped_ ? scrub_->finish() : std::string();
  if (!rest.empty()) {
    const std::string bytes = chunked ? as_chunk(rest) : rest;
    if (!co_await c_.send_client(bytes)) co_return false;
  }
  if (!chunked) co_return true;
  const bool sent = co_await c_.send_client(kLastChunk);
  co_return sent;
}

asio::awaitable<GatewayCall::Turn> GatewayCall::pass_answer() {
  told_.status = answer_.answer.status;
  const bool good = told_.status < 300;
  if (good && is_counted(endpoint_))
    reader_.emplace(provider_.provider, framing_of(answer_.answer.field("Content-Type")));
  scrub_.emplace(key_.redactor());
  const bool chunked = framing_.http11 && answer_.framing.kind != http::BodyKind::None;
  const bool keep = framing_.http11 && framing_.keep_alive;
  const http::BodyKind kind = answer_.framing.kind == http::BodyKind::None ? http::BodyKind::None
                              : chunked                                    ? http::BodyKind::Chunked
                                        : http::BodyKind::ToClose;
  const std::string bytes = key_.redactor().scrub(answer_head(answer_, kind, keep));
  c_.deadline.set(c_.core->times.quiet);
  bool whole = co_await c_.send_client(bytes);
  if (whole) whole = co_await pass_body(answer_, chunked);
  // A call that the provider refused costs nothing.
  if (!good && reservation_) reservation_->release();
  settle();
  if (!whole) {
    c_.cut();
    co_return Turn::Cut;
  }
  co_return keep && !stopped_ ? Turn::Next : Turn::Close;
}

void GatewayCall::settle() {
  if (!reader_ || !reservation_) return;
  const UsageReport report = reader_->finish(facts_.input_tokens);
  told_.usage = report.usage;
  told_.reading = report.reading;
  told_.amount = amount_of(report.usage, price_);
  reservation_->settle(told_.amount);
  const auto passed = gateway_.budget->passed();
  if (passed && !stopped_ && gateway_.exceeded) gateway_.exceeded(*passed);
}

void GatewayCall::tell() {
  told_.lasted = Clock::now() - since_;
  if (gateway_.called) gateway_.called(told_);
}

asio::awaitable<GatewayCall::Turn> GatewayCall::refuse(Refused why) {
  told_.status = why.status;
  told_.refusal = why.budget ? to_string(*why.budget) : why.message;
  // What has left may have cost something: then the reservation counts, when it goes with us.
  if (reservation_ && !left_) reservation_->release();
  const bool keep = framing_.keep_alive && (!request_.has_body || held_ > 0) && why.status < 500 &&
                    why.status != 413;
  std::string more;
  if (why.budget) more = fmt::format("{}: {}\r\n", kNoRetryHeader, kNoRetryValue);
  const std::string body = why.budget ? error_body(provider_.provider, *why.budget)
                                      : error_body(provider_.provider, why.type, why.message);
  const std::string bytes = json_answer(why.status, body, keep, more);
  c_.deadline.set(c_.core->times.head);
  const bool sent = co_await c_.send_client(bytes);
  if (why.budget && gateway_.exceeded) gateway_.exceeded(*why.budget);
  if (!sent) co_return Turn::Cut;
  co_return keep ? Turn::Next : Turn::Close;
}

asio::awaitable<GatewayCall::Turn> GatewayCall::run() {
  Asked asked;
  asked.way = Way::Gateway;
  asked.host = provider_.host.substr(0, provider_.host.find(':'));
  asked.request.port = provider_.port;
  asked.method = request_.method_text;
  asked.path = told_.path;
  Verdict verdict{Outcome::Allow, Reason::Allowed, std::nullopt, "a language model", {}};
  Step step;
  if (endpoint_ == ModelEndpoint::Uncounted || !is_plain_path(path_)) {
    verdict = {Outcome::Deny,
               Reason::PathNotAllowed,
               std::nullopt,
               "the gateway does not know this address of the provider",
               {}};
    step = std::unexpected(Refused{403, "permission_error", verdict.text});
  }
  const auto recorded = co_await c_.core->record(passage_of(asked, verdict));
  if (step && !recorded)
    step = std::unexpected(Refused{503, "api_error", "the call cannot be recorded"});
  if (step) step = co_await read_body();
  if (step) {
    auto key = Injection::make(std::array{key_field(provider_)}, c_.core->secrets);
    if (key) {
      key_ = std::move(*key);
    } else {
      step = std::unexpected(Refused{502, "api_error", key.error().message});
    }
  }
  if (step) step = pay();
  if (step) step = co_await reach();
  if (step) step = co_await ask();
  if (c_.is_cut()) co_return Turn::Cut;
  Turn turn = Turn::Close;
  if (step) {
    turn = co_await pass_answer();
  } else {
    Refused why = std::move(step.error());
    turn = co_await refuse(std::move(why));
  }
  tell();
  c_.upstream.close();
  if (pump_ && !c_.is_cut()) co_await pump_->finish(kEndPatience);
  c_.when_cut = nullptr;
  co_return turn;
}

}  // namespace caisson::egress
