#include "egress/gate/resolver.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "egress/gate/dns_exchange.h"

namespace caisson::egress {

namespace asio = boost::asio;

std::shared_ptr<Resolver> Resolver::make(asio::any_io_executor executor, ResolverOptions options) {
  return std::shared_ptr<Resolver>(new Resolver(std::move(executor), std::move(options)));
}

Resolver::Resolver(asio::any_io_executor executor, ResolverOptions options)
    : executor_(std::move(executor)), options_(std::move(options)) {
  if (options_.servers.size() > kNameServersMax) {
    options_.servers.resize(kNameServersMax, options_.servers.front());
  }
}

ResolverCounts Resolver::counts() const noexcept {
  ResolverCounts counts = counts_;
  counts.cached = cache_.size();
  return counts;
}

asio::awaitable<Resolver::Half> Resolver::ask(HostName host, DnsType type) {
  for (int round = 0; round < options_.rounds; ++round) {
    for (const NameServer& server : options_.servers) {
      auto answer = co_await ask_name_server(executor_, server, host, type, options_.each);
      if (!answer) continue;
      if (answer->rcode == DnsRcode::NxDomain) {
        co_return Half{Resolution::NoSuchName, {}, answer->ttl_seconds};
      }
      if (answer->rcode != DnsRcode::NoError) continue;
      co_return Half{Resolution::Answered, std::move(answer->addresses), answer->ttl_seconds};
    }
  }
  co_return Half{};
}

asio::awaitable<void> Resolver::fly(std::shared_ptr<Resolver> self, std::shared_ptr<Flight> flight,
                                    DnsType type) {
  Half half;
  try {
    half = co_await self->ask(flight->host, type);
  } catch (...) {
    half = Half{};  // an empty heap: the name is not resolved, and whoever waits is told
  }
  (type == DnsType::A ? flight->four : flight->six) = std::move(half);
  if (--flight->open == 0) self->land(*flight);
}

void Resolver::land(Flight& flight) {
  const Half& four = flight.four;
  const Half& six = flight.six;
  Resolved& result = flight.result;
  result.addresses = four.addresses;
  result.addresses.insert(result.addresses.end(), six.addresses.begin(), six.addresses.end());
  const bool failed = four.state == Resolution::Failed || six.state == Resolution::Failed;
  seconds ttl = kResolverTtlNone;
  if (!result.addresses.empty()) {
    result.state = Resolution::Answered;
    std::uint32_t least = kDnsTtlSecondsMax;
    for (const Half* half : {&four, &six}) {
      if (!half->addresses.empty()) least = std::min(least, half->ttl_seconds);
    }
    ttl = failed ? kResolverTtlMin : std::max(kResolverTtlMin, seconds(least));
  } else if (failed) {
    result.state = Resolution::Failed;
  } else if (four.state == Resolution::NoSuchName || six.state == Resolution::NoSuchName) {
    result.state = Resolution::NoSuchName;
  } else {
    result.state = Resolution::Answered;
  }
  if (result.state != Resolution::Failed) keep(flight.host, result, ttl);
  flights_.erase(flight.host);
  flight.landed.raise();
}

void Resolver::keep(const HostName& host, const Resolved& result, seconds ttl) {
  const auto known = cache_.find(host);
  if (known != cache_.end()) {
    order_.erase(known->second.place);
    cache_.erase(known);
  }
  if (cache_.size() >= kResolverCacheMax) {
    cache_.erase(order_.front());
    order_.pop_front();
  }
  order_.push_back(host);
  cache_.emplace(host, Entry{result, Clock::now() + ttl, std::prev(order_.end())});
}

asio::awaitable<Resolved> Resolver::resolve(HostName host) {
  const auto known = cache_.find(host);
  if (known != cache_.end() && Clock::now() < known->second.until) {
    ++counts_.found;
    co_return known->second.result;
  }
  std::shared_ptr<Flight> flight;
  const auto flying = flights_.find(host);
  if (flying != flights_.end()) {
    ++counts_.joined;
    flight = flying->second;
  } else {
    if (flights_.size() >= kResolverFlightsMax) {
      ++counts_.refused;
      co_return Resolved{Resolution::Failed, {}};
    }
    ++counts_.asked;
    flight = std::make_shared<Flight>(executor_, host);
    flights_.emplace(host, flight);
    const auto self = shared_from_this();
    asio::co_spawn(executor_, fly(self, flight, DnsType::A), asio::detached);
    asio::co_spawn(executor_, fly(self, flight, DnsType::Aaaa), asio::detached);
  }
  co_await flight->landed.wait();
  co_return flight->result;
}

}  // namespace caisson::egress
