#include "egress/gate/http_relay.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "egress/gate/gateway_call.h"
#include "egress/gate/tunnel.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

constexpr http::Limits kLimits;  // of a request's head: the server's own

std::vector<std::string_view> hosts_of(const http::Request& request) {
  std::vector<std::string_view> hosts;
  for (const http::Field& field : request.fields) {
    if (http::same_name(field.name, "host")) hosts.emplace_back(field.value);
  }
  return hosts;
}

// The authority of a target that could not be read, for the record: bounded, and without what
// stands before an '@', which may be a password.
std::string raw_host(std::string_view target) {
  constexpr std::size_t kShownMax = 256;
  const std::size_t scheme = target.find("://");
  if (scheme != std::string_view::npos) target.remove_prefix(scheme + 3);
  target = target.substr(0, target.find_first_of("/?#"));
  const std::size_t at = target.rfind('@');
  if (at != std::string_view::npos) target.remove_prefix(at + 1);
  return std::string(target.substr(0, kShownMax));
}

std::string_view without_query(std::string_view path) { return path.substr(0, path.find('?')); }

}  // namespace

asio::awaitable<HttpRelay::Got> HttpRelay::read_request() {
  http::HeadScanner scanner;
  c_.deadline.set(c_.in.empty() ? c_.core->times.idle : c_.core->times.head);
  for (;;) {
    const auto scanned = scanner.scan(c_.in, kLimits);
    if (!scanned) {
      refusal_ = scanned.error();
      co_return Got::Refused;
    }
    if (*scanned) {
      const std::string_view head =
          std::string_view(c_.in).substr(scanner.skipped(), **scanned - scanner.skipped());
      const auto read = http::read_proxy_head(head, kLimits, request_, framing_);
      c_.in.erase(0, **scanned);
      c_.deadline.clear();
      if (read) co_return Got::Head;
      refusal_ = read.error();
      co_return Got::Refused;
    }
    const bool was_empty = c_.in.empty();
    const Fill filled = co_await c_.fill_in();
    if (filled == Fill::More) {
      // For the whole head, however slowly it drips.
      if (was_empty) c_.deadline.set(c_.core->times.head);
      continue;
    }
    if (c_.in.empty() || !c_.deadline.passed()) co_return Got::Nothing;
    refusal_ = {408, Error{Errc::TimedOut, "the head of the request did not arrive in time"}};
    co_return Got::Refused;
  }
}

asio::awaitable<void> HttpRelay::run() {
  for (;;) {
    const Got got = co_await read_request();
    if (c_.is_cut() || got == Got::Nothing) break;
    Turn turn = Turn::Close;
    if (got == Got::Refused) {
      framing_.keep_alive = false;
      request_.method_text.clear();
      c_.deadline.set(c_.core->times.head);
      const OwnAnswer own{refusal_.status, refusal_.error.message + "\n"};
      turn = co_await answer(own);
    } else {
      turn = co_await take_turn();
    }
    if (turn == Turn::Next) continue;
    if (turn == Turn::Left) co_return;
    if (turn == Turn::Close) co_await c_.linger();
    break;
  }
  if (c_.is_cut()) co_return;
  c_.leave();
  c_.client.close();
}

asio::awaitable<void> HttpRelay::run_refusing(OwnAnswer own) {
  const Got got = co_await read_request();
  if (!c_.is_cut() && got != Got::Nothing) {
    framing_.keep_alive = false;
    if (co_await answer(own) == Turn::Close) co_await c_.linger();
  }
  if (c_.is_cut()) co_return;
  c_.leave();
  c_.client.close();
}

std::uint16_t HttpRelay::usual_port() const noexcept {
  return tls_ == Tls::Verified ? kHttpsPort : kHttpPort;
}

std::optional<OwnAnswer> HttpRelay::inject(const Asked& asked, const Verdict& verdict) {
  injection_ = Injection();
  const auto& rule = c_.core->ledger.rules().all()[*verdict.rule_index].wanted;
  if (rule.inject.empty()) return std::nullopt;
  auto made = Injection::make(rule.inject, c_.core->secrets);
  if (made) {
    injection_ = std::move(*made);
    return std::nullopt;
  }
  Verdict refused{
      Outcome::Deny, Reason::SecretMissing, verdict.rule_index, made.error().message, {}};
  c_.core->note(passage_of(asked, refused));
  return OwnAnswer{502, fmt::format("Proxy error: {}\n", made.error().message)};
}

// Ourselves, by the address that the variables of the guest name.
std::optional<Gateway::Found> HttpRelay::gateway_target() const {
  // Whoever came from outside with a token has shown it for hosts, and once.
  if (c_.handed_over) return std::nullopt;
  if (tunnel_ || !c_.core->gateway || !request_.target.starts_with('/')) return std::nullopt;
  const std::string_view host = request_.field("Host");
  const std::string port = fmt::format(":{}", kProxyPort);
  if (host != "127.0.0.1" + port && host != "localhost" + port && host != "127.0.0.1" &&
      host != "localhost")
    return std::nullopt;
  return c_.core->gateway->find(request_.target);
}

asio::awaitable<HttpRelay::Turn> HttpRelay::call_model(Gateway::Found found) {
  c_.leave();
  GatewayCall call(c_, request_, framing_, std::move(found));
  switch (co_await call.run()) {
    case GatewayCall::Turn::Next:
      co_return Turn::Next;
    case GatewayCall::Turn::Close:
      co_return Turn::Close;
    case GatewayCall::Turn::Cut:
      break;
  }
  if (!c_.is_cut()) c_.cut();
  co_return Turn::Cut;
}

Identified HttpRelay::identity() const {
  if (tunnel_) {
    Identified who(tunnel_->request.identity);
    who.within = tunnel_->request.within;
    return who;
  }
  if (!c_.core->identify) return Identity::Confirmed;
  // Two of them could be read in two ways.
  if (request_.count("Proxy-Authorization") > 1) return Identity::Unknown;
  return c_.core->identify(request_.field("Proxy-Authorization"));
}

TargetResult HttpRelay::target() const {
  if (!tunnel_) return parse_absolute_target(request_.target);
  return parse_origin_target(request_.target, std::get<HostName>(tunnel_->request.host),
                             tunnel_->request.port);
}

Asked HttpRelay::ask(const TargetResult& target, const Identified& who) const {
  Asked asked;
  asked.way = tunnel_ ? tunnel_->way : Way::Http;
  asked.method = request_.method_text;
  asked.request.identity = who.identity;
  asked.request.within = who.within;
  asked.request.sight = Sight::Readable;
  asked.request.verified = tls_ == Tls::Verified;
  if (!target) {
    asked.host = tunnel_ ? tunnel_->host : raw_host(request_.target);
    asked.request.port = tunnel_ ? tunnel_->request.port : 0;
    asked.request.host = target.error();
    return asked;
  }
  asked.host = target->host.text();
  asked.path = without_query(target->path);
  asked.request.host = target->host;
  asked.request.port = target->port;
  HttpSeen http{request_.method_text, target->path, std::nullopt};
  const auto rule = framing_.http11 ? HostFieldRule::Required : HostFieldRule::Optional;
  const auto hosts = hosts_of(request_);
  const auto checked = check_host_field(*target, hosts, rule, usual_port());
  if (!checked) http.host_field = checked.error();
  asked.request.first = std::move(http);
  return asked;
}

asio::awaitable<HttpRelay::Turn> HttpRelay::answer(const OwnAnswer& own) {
  // The body of a refused request is not read, so what follows it cannot be found.
  const bool keep = framing_.keep_alive && !request_.has_body;
  const std::string bytes = own_answer(own, request_.method_text == "HEAD", keep);
  c_.deadline.set(c_.core->times.head);
  if (!co_await c_.send_client(bytes)) co_return Turn::Cut;
  co_return keep ? Turn::Next : Turn::Close;
}

asio::awaitable<HttpRelay::Turn> HttpRelay::refuse(const Asked& asked, const Verdict& verdict) {
  const nanoseconds wait =
      verdict.rule_index ? c_.core->ledger.wait(*verdict.rule_index, Clock::now()) : nanoseconds(0);
  OwnAnswer own = denial(verdict, asked.host, wait);
  if (verdict.reason == Reason::BadTarget) own.text = "Invalid proxy request\n" + own.text;
  if (own.status == 502)
    own.text = (asked.way == Way::Connect ? "Failed to connect: " : "Proxy error: ") + own.text;
  const auto* http = std::get_if<HttpSeen>(&asked.request.first);
  if (verdict.reason == Reason::HostField && http != nullptr && http->host_field &&
      http->host_field->fault != TargetFault::HostFieldOther) {
    own.status = 400;
  }
  co_return co_await answer(own);
}

asio::awaitable<HttpRelay::Turn> HttpRelay::take_turn() {
  answered_ = false;
  if (auto model = gateway_target()) {
    Gateway::Found found = std::move(*model);
    co_return co_await call_model(std::move(found));
  }
  const Identified who = identity();
  if (request_.method_text == "CONNECT" && !tunnel_) co_return co_await connect(who);
  const TargetResult where = target();
  const Asked asked = ask(where, who);
  const bool reused = where && c_.is_connected_to(where->host, where->port);
  if (tunnel_ && where && !reused) co_return Turn::Close;  // its host has closed
  Verdict verdict;
  if (reused || tunnel_) {
    verdict = c_.admit_next(asked, std::exchange(paid_, false));
  } else {
    c_.leave();
    verdict = co_await c_.admit(asked);
  }
  if (c_.is_cut()) co_return Turn::Cut;
  if (verdict.outcome == Outcome::Deny) co_return co_await refuse(asked, verdict);
  if (const auto missing = inject(asked, verdict)) co_return co_await answer(*missing);
  if (!reused) {
    const auto reached = co_await c_.reach(asked, std::move(verdict));
    if (c_.is_cut()) co_return Turn::Cut;
    if (!reached) {
      const bool late = reached.error().code == Errc::TimedOut;
      const OwnAnswer own{late ? 504U : 502U,
                          fmt::format("Proxy error: {}\n", reached.error().message)};
      co_return co_await answer(own);
    }
  }
  co_return co_await exchange(asked, *where, reused);
}

asio::awaitable<HttpRelay::Turn> HttpRelay::connect(Identified who) {
  const PortRule rule = c_.core->identify ? PortRule::Default443 : PortRule::Required;
  TargetResult where = parse_connect_target(request_.target, rule);
  if (where) {
    const auto hosts = hosts_of(request_);
    const auto checked = check_host_field(*where, hosts, HostFieldRule::Optional, std::nullopt);
    if (!checked) where = std::unexpected(checked.error());
  }
  if (request_.has_body) {
    const OwnAnswer own{400, "CONNECT has no body\n"};
    co_return co_await answer(own);
  }
  Asked asked = ask(where, who);
  asked.way = Way::Connect;
  asked.path.clear();
  asked.request.first = NothingSeen{};
  c_.leave();
  Verdict verdict = co_await c_.admit(asked);
  if (c_.is_cut()) co_return Turn::Cut;
  if (verdict.outcome == Outcome::Deny) co_return co_await refuse(asked, verdict);
  const auto reached = co_await c_.reach(asked, std::move(verdict));
  if (c_.is_cut()) co_return Turn::Cut;
  if (!reached) {
    const bool late = reached.error().code == Errc::TimedOut;
    const OwnAnswer own{late ? 504U : 502U,
                        fmt::format("Failed to connect: {}\n", reached.error().message)};
    co_return co_await answer(own);
  }
  c_.deadline.set(c_.core->times.head);
  if (!co_await c_.send_client("HTTP/1.1 200 Connection Established\r\n\r\n")) co_return Turn::Cut;
  asked.method.clear();
  co_await run_tunnel(c_, std::move(asked));
  co_return Turn::Left;
}

}  // namespace caisson::egress
