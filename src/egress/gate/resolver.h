// egress/gate/resolver.h — asks the world's name servers where an allowed name is. One for the
// whole server: gates share its cache, so a name is asked for once and not once per sandbox. It
// says nothing about whether an address is good: decide() does, each time anew.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "egress/gate/resolv_conf.h"
#include "egress/gate/signal.h"
#include "egress/wire/decision.h"
#include "egress/wire/dns_upstream.h"
#include "egress/wire/host_name.h"

namespace caisson::egress {

inline constexpr std::size_t kResolverCacheMax = 4096;   // names
inline constexpr std::size_t kResolverFlightsMax = 256;  // names asked for at once
// A zone that changes its answer with every query gains nothing: each answer is judged. Yet it
// should not make us ask with every connection.
inline constexpr seconds kResolverTtlMin{5};
inline constexpr seconds kResolverTtlNone{5};  // of an answer without addresses

struct ResolverOptions {
  std::vector<NameServer> servers;  // none: nothing can be resolved
  milliseconds each{2000};          // for one question to one server
  int rounds = 2;                   // through all servers
};

struct ResolverCounts {
  std::uint64_t asked = 0;  // names that were not in the cache
  std::uint64_t found = 0;  // in the cache
  std::uint64_t joined = 0;
  std::uint64_t refused = 0;  // too many at once
  std::size_t cached = 0;
};

class Resolver : public std::enable_shared_from_this<Resolver> {
 public:
  [[nodiscard]] static std::shared_ptr<Resolver> make(boost::asio::any_io_executor executor,
                                                      ResolverOptions options);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  Resolver(Resolver&&) = delete;
  Resolver& operator=(Resolver&&) = delete;
  ~Resolver() = default;

  // Addresses of both families, IPv4 first. Failed when no server has an answer, or too many names
  // are being asked for. The caller keeps the resolver until it is done.
  [[nodiscard]] boost::asio::awaitable<Resolved> resolve(HostName host);
  [[nodiscard]] ResolverCounts counts() const noexcept;

 private:
  struct Half {  // what one type of record gave
    Resolution state = Resolution::Failed;
    std::vector<IpAddress> addresses;
    std::uint32_t ttl_seconds = 0;
  };
  // One name that is being asked for, and everybody who waits for it.
  struct Flight {
    Flight(const boost::asio::any_io_executor& executor, HostName the_host)
        : host(std::move(the_host)), landed(executor) {}
    HostName host;
    Half four;
    Half six;
    int open = 2;
    Resolved result;
    Signal landed;
  };
  struct Entry {
    Resolved result;
    TimePoint until;
    std::list<HostName>::iterator place;  // in order of arrival
  };

  Resolver(boost::asio::any_io_executor executor, ResolverOptions options);
  boost::asio::awaitable<void> fly(std::shared_ptr<Resolver> self, std::shared_ptr<Flight> flight,
                                   DnsType type);
  boost::asio::awaitable<Half> ask(HostName host, DnsType type);
  void land(Flight& flight);
  void keep(const HostName& host, const Resolved& result, seconds ttl);

  boost::asio::any_io_executor executor_;
  ResolverOptions options_;
  std::map<HostName, Entry> cache_;
  std::list<HostName> order_;
  std::map<HostName, std::shared_ptr<Flight>> flights_;
  ResolverCounts counts_;
};

}  // namespace caisson::egress
