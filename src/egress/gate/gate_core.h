// egress/gate/gate_core.h — what the connections of one gate share. They keep it alive, so that the
// Gate may go before its last coroutine does; after close() nobody outside is told anything.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <list>
#include <memory>
#include <string>

#include "egress/gate/gate.h"
#include "egress/gate/ledger.h"
#include "egress/gate/refused_names.h"
#include "egress/gate/resolver.h"
#include "egress/wire/synthetic.h"
#include "policy/rate_limiter.h"

namespace caisson::egress {

class Connection;
class TlsTrust;  // tls_client.h

// Names asked for at once, of one sandbox.
inline constexpr std::size_t kGateResolvingMax = 16;
// Queries to the resolver inside: so many at once, and so many a minute.
inline constexpr std::int64_t kNameQueriesPerMinuteMax = 6000;

class GateCore : public std::enable_shared_from_this<GateCore> {
 public:
  GateCore(boost::asio::any_io_executor the_executor, GateOptions options);
  ~GateCore() = default;
  GateCore(const GateCore&) = delete;
  GateCore& operator=(const GateCore&) = delete;
  GateCore(GateCore&&) = delete;
  GateCore& operator=(GateCore&&) = delete;

  // Tells the first decision of a connection and counts it.
  [[nodiscard]] boost::asio::awaitable<Result<void>> record(Passage passage);
  // Tells a later one. False: it cannot be kept.
  bool note(Passage passage);
  void farewell(Farewell words);
  // By the resolver that all gates share, where each has a part only: a zone that never answers is
  // its own sandbox's loss.
  [[nodiscard]] boost::asio::awaitable<Resolved> resolve(HostName host);

  const boost::asio::any_io_executor executor;
  const std::string sandbox;
  const std::shared_ptr<Resolver> resolver;
  const Identify identify;
  const GateTimes times;
  const std::string trust_store;
  const std::shared_ptr<Authority> authority;
  const FindSecret secrets;
  const std::shared_ptr<Gateway> gateway;
  const ExtraProxy proxy;

  Ledger ledger;
  AddressBook book;
  policy::RateLimiter name_queries;
  RefusedNames refused_names;
  GateCounts counts;
  std::list<Connection*> connections;
  std::shared_ptr<TlsTrust> trust;  // loaded with the first https of a tool
  bool closed = false;
  std::size_t resolving = 0;

  std::list<boost::asio::posix::stream_descriptor> listeners;
  boost::asio::posix::stream_descriptor name_socket;
  std::vector<UniqueFd> held;

 private:
  void count(const Verdict& verdict) noexcept;
  const Witness witness_;
};

}  // namespace caisson::egress
