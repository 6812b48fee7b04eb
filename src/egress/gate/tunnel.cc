#include "egress/gate/tunnel.h"

#include <utility>

#include "egress/gate/first_bytes.h"
#include "egress/gate/http_relay.h"
#include "egress/gate/intercept.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

// The client's first bytes stay in connection.in.
asio::awaitable<Spoken> listen(Connection& connection, FirstBytesReader& reader) {
  const GateTimes& times = connection.core->times;
  connection.deadline.set(connection.in.empty() ? times.quiet : times.first);
  for (;;) {
    const Spoken spoken = reader.look(connection.in);
    if (spoken != Spoken::Undecided) co_return spoken;
    const bool first = connection.in.empty();
    const Fill filled = co_await connection.fill_in();
    if (filled == Fill::More) {
      // For all that it takes to judge, however slowly it drips.
      if (first) connection.deadline.set(connection.core->times.first);
      continue;
    }
    if (filled == Fill::Broken) connection.cut();
    co_return reader.finish(connection.in);
  }
}

FirstBytes seen(const FirstBytesReader& reader, Spoken spoken) {
  switch (spoken) {
    case Spoken::Tls:
      return TlsSeen{reader.hello()};
    case Spoken::TlsRefused:
      return TlsRefused{reader.fault()};
    default:
      return OtherSeen{};
  }
}

}  // namespace

asio::awaitable<void> run_tunnel(Connection& connection, Asked asked) {
  std::shared_ptr<Signal> down;
  if (connection.would_allow(asked, OtherSeen{})) down = connection.start_down();
  FirstBytesReader reader;
  const Spoken spoken = co_await listen(connection, reader);
  if (connection.is_cut()) {
    if (down) co_await down->wait();
    co_return;
  }
  if (spoken == Spoken::Http) {
    if (down) co_await connection.stop_down(down);
    HttpRelay relay(connection, std::move(asked));
    co_await relay.run();
    co_return;
  }
  // TLS can be read where the rule says so.
  asked.request.sight = spoken == Spoken::Tls ? Sight::Readable : Sight::Opaque;
  asked.request.first = seen(reader, spoken);
  const Verdict verdict = connection.admit_first_bytes(asked);
  if (verdict.outcome == Outcome::Deny) {
    connection.cut();
    if (down) co_await down->wait();
    co_return;
  }
  if (connection.core->ledger.rules().all()[*verdict.rule_index].wanted.intercepts()) {
    if (down) co_await connection.stop_down(down);
    co_await intercept(connection, std::move(asked));
    co_return;
  }
  if (!down) down = connection.start_down();
  co_await connection.run_up();
  co_await down->wait();
}

}  // namespace caisson::egress
