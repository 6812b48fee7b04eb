// doors/daiv/call.h — one request on its way through the door, and what handlers share.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "doors/daiv/body.h"
#include "doors/daiv/daiv.h"
#include "doors/daiv/routes.h"
#include "doors/daiv/schema.h"
#include "doors/shared/budget.h"

namespace caisson::daiv {

inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kNoSession = "Session not found or already closed";

// When each session was last used. Ids that are gone are dropped by the reaper, so there are not
// many more of them than sandboxes.
class Activity {
 public:
  void touch(const std::string& id, TimePoint now) { seen_[id] = now; }
  void forget(const std::string& id) { seen_.erase(id); }
  [[nodiscard]] std::optional<TimePoint> of(const std::string& id) const {
    const auto at = seen_.find(id);
    return at == seen_.end() ? std::nullopt : std::optional(at->second);
  }
  template <class Keep>
  void keep_if(const Keep& keep) {
    std::erase_if(seen_, [&](const auto& one) { return !keep(one.first); });
  }

 private:
  std::map<std::string, TimePoint, std::less<>> seen_;
};

struct Services {
  control::Fleet& fleet;
  control::Access& access;
  const DaivOptions& options;
  doors::Budget& budget;
  Activity activity{};
  std::optional<bool> keeps_files{};    // can a sandbox outlive a stop here? Asked once.
  std::set<std::string> new_secrets{};  // of sessions that are being made or changed
};

// It lives in the frame of Door::handle, as long as its handler runs.
struct Call {
  http::Exchange& exchange;
  Services& services;
  Match match{};
  control::Caller caller{};
  Body body{};
  // Set where an answer has words of its own; then the error's are not used.
  struct Refusal {
    unsigned status = 0;
    std::string body;
  };
  std::optional<Refusal> refusal{};
  std::unique_ptr<doors::Budget::Hold> held{};

  // What this call holds of the tenant's bytes, until it is answered.
  [[nodiscard]] doors::Budget::Hold& hold() {
    if (!held) held = services.budget.open(caller.tenant);
    return *held;
  }
  [[nodiscard]] const http::Request& request() const noexcept { return exchange.request(); }
  [[nodiscard]] control::Fleet& fleet() const noexcept { return services.fleet; }
  [[nodiscard]] const DaivOptions& options() const noexcept { return services.options; }
  [[nodiscard]] const std::string& id() const noexcept { return match.id; }
};

// {"detail": TEXT}
[[nodiscard]] std::string detail_body(std::string_view text);
// A refusal with a status and words of its own.
[[nodiscard]] std::unexpected<Error> refuse(Call& call, unsigned status, std::string_view detail);
[[nodiscard]] std::unexpected<Error> refuse(Call& call, const Problems& problems);  // 422
// What an error of control becomes, where a handler knows nothing better.
[[nodiscard]] Call::Refusal refusal_of(const Error& error);

awaitable<Result<void>> answer(Call& call, const boost::json::object& body);
awaitable<Result<void>> answer_nothing(Call& call);  // 204

}  // namespace caisson::daiv
