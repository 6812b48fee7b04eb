// doors/sandboxer/services.h — what every request and every main process of this door shares. It
// lives as long as the last of them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "control/turns.h"
#include "doors/sandboxer/hub.h"
#include "doors/sandboxer/ledger.h"
#include "doors/sandboxer/rows.h"
#include "doors/sandboxer/sandboxer.h"
#include "doors/shared/budget.h"

namespace caisson::sandboxer {

// Counts long-lived answers, in all and per tenant.
class Streams {
  struct Counts {
    std::size_t open = 0;
    std::map<std::string, std::size_t, std::less<>> per_tenant;
  };

 public:
  Streams(std::size_t max, std::size_t per_tenant_max)
      : max_(max), per_tenant_max_(per_tenant_max) {}

  class Ticket {
   public:
    Ticket(std::shared_ptr<Counts> counts, std::string tenant);
    Ticket(Ticket&&) noexcept = default;
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket();

   private:
    std::shared_ptr<Counts> counts_;
    std::string tenant_;
  };
  [[nodiscard]] Result<Ticket> enter(const std::string& tenant);
  [[nodiscard]] std::size_t open() const noexcept { return counts_->open; }

 private:
  std::size_t max_;
  std::size_t per_tenant_max_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

// At most so many calls of one tenant look into the history at once, and the others wait: it has
// places for few in all, and one tenant must not take them from the others.
class Questions {
 public:
  static constexpr std::size_t kAtOnce = 8;
  static constexpr milliseconds kPatience{10'000};
  static constexpr std::size_t kTenantsMax = 256;  // remembered while nobody of them asks

  explicit Questions(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}
  // Given back when the result goes. Busy when it is not one's turn in time.
  awaitable<Result<control::Turns::Turn>> ask(const std::string& tenant) {
    if (lines_.size() >= kTenantsMax)
      std::erase_if(lines_, [](const auto& one) { return one.second.free() == kAtOnce; });
    control::Turns line = lines_.try_emplace(tenant, executor_, kAtOnce).first->second;
    co_return co_await line.take(kPatience);
  }
  [[nodiscard]] std::size_t tenants() const noexcept { return lines_.size(); }

 private:
  boost::asio::any_io_executor executor_;
  std::map<std::string, control::Turns, std::less<>> lines_;
};

// Who came into which port lately: the first time is in the audit, the rest of a visit is not.
class Visits {
 public:
  // Whether it is the first time.
  [[nodiscard]] bool begin(std::string key, TimePoint now) {
    if (seen_.size() >= kVisitsMax)
      std::erase_if(seen_, [now](const auto& one) { return one.second < now; });
    if (seen_.size() >= kVisitsMax) seen_.clear();
    TimePoint& until = seen_[std::move(key)];
    return std::exchange(until, now + kVisitLife) < now;
  }
  void forget(const std::string& key) { seen_.erase(key); }
  [[nodiscard]] std::size_t size() const noexcept { return seen_.size(); }

  static constexpr std::size_t kVisitsMax = 4096;
  static constexpr seconds kVisitLife{60};

 private:
  std::map<std::string, TimePoint, std::less<>> seen_;  // until when it lasts
};

struct Services {
  Services(boost::asio::any_io_executor on, control::Fleet& all, control::Access& tokens,
           control::Logins& known, control::People& persons, control::History& past,
           SandboxerOptions wanted);

  boost::asio::any_io_executor executor;
  control::Fleet& fleet;
  control::Access& access;
  control::Logins& logins;
  control::People& people;
  control::History& history;
  const SandboxerOptions options;
  Rows rows;
  Hub hub;
  std::shared_ptr<Ledger> ledger;
  doors::Budget budget;
  Streams streams;
  Questions questions;
  Visits visits{};
  Signal closing;
  bool closed = false;
  std::map<std::string, std::size_t, std::less<>> making{};  // per tenant: rows to come
  std::set<std::string> forgetful_tiers{};                   // whose forks keep no memory

  [[nodiscard]] store::WallTime now() const { return options.wall(); }
  void tell(const Row& row, std::string_view type, std::optional<boost::json::object> data) {
    hub.tell(row.tenant, type, row.id, std::move(data), now());
  }
  // The sandbox's own label, which every door can change; of one that is gone, what it was.
  [[nodiscard]] bool is_public(const Row& row) const;
  void failed(std::string_view request_id, const Error& error) const {
    if (options.on_failure) options.on_failure(request_id, error);
  }
};
using ServicesPtr = std::shared_ptr<Services>;

// The door itself, where nobody asked.
[[nodiscard]] control::Caller own_caller(const std::string& tenant);

}  // namespace caisson::sandboxer
