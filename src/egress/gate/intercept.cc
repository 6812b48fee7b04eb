#include "egress/gate/intercept.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "egress/credentials/authority.h"
#include "egress/gate/http_relay.h"
#include "egress/gate/tls_pump.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

constexpr milliseconds kEndPatience{2000};

struct Pumps {
  std::shared_ptr<TlsPump> client;
  std::shared_ptr<TlsPump> host;
};

// The socket of a stream, which then has the clear text instead.
Result<void> put_between(TlsPump& pump, Stream& stream, std::string& early) {
  UniqueFd wire(::fcntl(stream.fd(), F_DUPFD_CLOEXEC, 3));
  if (!wire) return sys_failure("a socket", errno);
  UniqueFd clear = TRY(pump.open(std::move(wire)));
  TRY(stream.assign(std::move(clear)));
  const std::string bytes = std::exchange(early, {});
  return pump.feed(bytes);
}

Result<Pumps> make_pumps(Connection& connection, const HostName& host) {
  GateCore& core = *connection.core;
  if (!core.authority) {
    return failure(Errc::Unsupported,
                   "this sandbox trusts no authority of ours; create it with the rule");
  }
  if (!core.trust) core.trust = TRY(TlsTrust::load(core.trust_store));
  const auto leaf = TRY(core.authority->context_for(host, std::chrono::system_clock::now()));
  TlsSession inside = TRY(server_session(leaf.get()));
  TlsSession outside = TRY(client_session(*core.trust, host));
  Pumps pumps;
  pumps.client = std::make_shared<TlsPump>(core.executor, std::move(inside));
  pumps.host = std::make_shared<TlsPump>(core.executor, std::move(outside));
  TRY(put_between(*pumps.client, connection.client, connection.in));
  TRY(put_between(*pumps.host, connection.upstream, connection.up_in));
  return pumps;
}

asio::awaitable<void> relay_between(Connection& connection, const Pumps& pumps, Asked asked) {
  const GateTimes& times = connection.core->times;
  // The guest first: then it can be told what is wrong with its host.
  const auto inside = co_await pumps.client->handshake(times.first);
  if (!inside || connection.is_cut()) {
    connection.cut();  // most likely it does not trust us, and has closed already
    co_return;
  }
  pumps.client->run();
  const auto outside = co_await pumps.host->handshake(times.first);
  if (connection.is_cut()) co_return;
  HttpRelay relay(connection, std::move(asked), HttpRelay::Tls::Verified);
  if (outside) {
    pumps.host->run();
    co_await relay.run();
  } else {
    const OwnAnswer own{502, fmt::format("Proxy error: {}\n", outside.error().message)};
    co_await relay.run_refusing(own);
  }
}

}  // namespace

asio::awaitable<void> intercept(Connection& connection, Asked asked) {
  const HostName host = std::get<HostName>(asked.request.host);
  auto pumps = make_pumps(connection, host);
  if (!pumps) {
    Verdict verdict{Outcome::Deny, Reason::NotIntercepted, std::nullopt, pumps.error().message, {}};
    connection.core->note(passage_of(asked, verdict));
    connection.cut();
    co_return;
  }
  connection.when_cut = [both = *pumps] {
    both.client->abort();
    both.host->abort();
  };
  co_await relay_between(connection, *pumps, std::move(asked));
  connection.leave();
  connection.client.close();
  co_await pumps->client->finish(kEndPatience);
  co_await pumps->host->finish(kEndPatience);
  connection.when_cut = nullptr;
}

}  // namespace caisson::egress
