#include "egress/gate/socks_door.h"

#include <fmt/format.h>

#include <utility>

#include "base/base64.h"
#include "egress/gate/tunnel.h"
#include "egress/wire/socks5.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

// A name and a password are the same token in another envelope.
Identified identify(const Connection& connection, const SocksParser& parser) {
  const std::string words = fmt::format("{}:{}", parser.user(), parser.password());
  return connection.core->identify("Basic " + to_base64(words));
}

Asked ask(const Connection& connection, const SocksParser& parser, const Identified& who) {
  Asked asked;
  asked.way = Way::Socks5;
  asked.request.identity = who.identity;
  asked.request.within = who.within;
  asked.request.port = parser.port();
  asked.request.sight = Sight::Readable;
  const SocksParser::Target& target = parser.target();
  if (const auto* host = std::get_if<HostName>(&target)) {
    asked.host = host->text();
    asked.request.host = *host;
  } else if (const auto* address = std::get_if<IpAddress>(&target)) {
    const HostName* name = connection.core->book.find(*address);
    asked.host = name != nullptr ? name->text() : to_string(*address);
    if (name != nullptr) {
      asked.request.host = *name;
    } else {
      asked.request.host = *address;
    }
  } else {
    asked.request.host = std::get<HostFault>(target);
  }
  return asked;
}

SocksReply reply_of(const Verdict& verdict) {
  switch (verdict.reason) {
    case Reason::NoSuchName:
    case Reason::NoAddress:
      return SocksReply::HostUnreachable;
    case Reason::ResolverFailed:
      return SocksReply::GeneralFailure;
    default:
      return SocksReply::NotAllowed;
  }
}

SocksReply reply_of(const Error& error) {
  switch (error.sys_errno) {
    case ECONNREFUSED:
      return SocksReply::ConnectionRefused;
    case ENETUNREACH:
      return SocksReply::NetworkUnreachable;
    default:
      return error.code == Errc::TimedOut ? SocksReply::TtlExpired : SocksReply::HostUnreachable;
  }
}

// Up to the request. False: refused, left, or too slow.
asio::awaitable<bool> greet(Connection& connection, SocksParser& parser, Identified& who) {
  connection.deadline.set(connection.core->times.first);
  for (;;) {
    SocksStep step = parser.feed(as_bytes(connection.in));
    connection.in.erase(0, step.consumed);
    if (step.state == SocksState::Credentials) {
      who = identify(connection, parser);
      step = parser.credentials(who.identity != Identity::Unknown);
    }
    if (!step.reply.empty() && !co_await connection.send_client(as_text(step.reply))) {
      co_return false;
    }
    if (step.state == SocksState::Done) co_return true;
    if (step.state == SocksState::Refused) {
      co_await connection.linger();
      co_return false;
    }
    if (!connection.in.empty()) continue;
    if (co_await connection.fill_in() != Fill::More) co_return false;
  }
}

asio::awaitable<void> give_up(Connection& connection, SocksReply reply) {
  const Buffer bytes = build_socks_reply(reply);
  if (co_await connection.send_client(as_text(bytes))) co_await connection.linger();
}

}  // namespace

asio::awaitable<void> serve_socks(Connection& connection) {
  const bool with_token = static_cast<bool>(connection.core->identify);
  SocksParser parser(with_token ? SocksAuth::UserPassword : SocksAuth::None);
  Identified who = with_token ? Identity::Unknown : Identity::Confirmed;
  if (!co_await greet(connection, parser, who)) co_return;
  connection.deadline.clear();
  Asked asked = ask(connection, parser, who);
  Verdict verdict = co_await connection.admit(asked);
  if (connection.is_cut()) co_return;
  connection.deadline.set(connection.core->times.first);
  if (verdict.outcome == Outcome::Deny) {
    co_await give_up(connection, reply_of(verdict));
    co_return;
  }
  const auto reached = co_await connection.reach(asked, std::move(verdict));
  if (connection.is_cut()) co_return;
  connection.deadline.set(connection.core->times.first);
  if (!reached) {
    co_await give_up(connection, reply_of(reached.error()));
    co_return;
  }
  const Buffer yes = build_socks_reply(SocksReply::Succeeded);
  if (!co_await connection.send_client(as_text(yes))) co_return;
  co_await run_tunnel(connection, std::move(asked));
}

}  // namespace caisson::egress
