// doors/rest/call.h — one request on its way through the door, and what handlers share.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doors/rest/budget.h"
#include "doors/rest/metrics.h"
#include "doors/rest/replies.h"
#include "doors/rest/rest.h"
#include "doors/rest/router.h"

namespace caisson::rest {

inline constexpr std::size_t kReadersMax = 64;  // questions to the store that wait at once

// Counts long-lived answers, in all and per caller. A ticket may outlive the gate.
class StreamGate {
  struct Counts {
    std::size_t open = 0;
    std::map<std::string, std::size_t, std::less<>> per_caller;
  };

 public:
  StreamGate(std::size_t max, std::size_t per_caller_max)
      : max_(max), per_caller_max_(per_caller_max) {}

  class Ticket {
   public:
    Ticket(std::shared_ptr<Counts> counts, std::string caller)
        : counts_(std::move(counts)), caller_(std::move(caller)) {}
    Ticket(Ticket&&) noexcept = default;
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket();

   private:
    std::shared_ptr<Counts> counts_;
    std::string caller_;
  };
  [[nodiscard]] Result<Ticket> enter(const std::string& caller);
  [[nodiscard]] std::size_t open() const noexcept { return counts_->open; }

 private:
  std::size_t max_;
  std::size_t per_caller_max_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

struct Services {
  control::Fleet& fleet;
  control::Access& access;
  store::Store& store;
  Log& log;
  const DoorOptions& options;
  Metrics& metrics;
  StreamGate& streams;
  Budget& budget;
  boost::asio::thread_pool& readers;  // what waits for the disk runs there
  // Questions to the store that wait now; whoever asks one holds a share of the count.
  std::shared_ptr<std::size_t> reading = std::make_shared<std::size_t>(0);
};

// It lives in the frame of Door::handle, as long as its handler runs.
struct Call {
  http::Exchange& exchange;
  Services& services;
  Match match;
  control::Caller caller;
  std::vector<std::pair<std::string, std::string>> query;
  // Set where a status of HTTP has no code of ours; then the error's own code is not used.
  unsigned status = 0;
  std::string_view code;
  std::unique_ptr<Budget::Hold> held{};
  Replies::Turn* turn = nullptr;  // of a call with a key: it keeps the answer
  std::size_t body_digest = 0;    // of the JSON that was read

  // What this call holds of the tenant's bytes, until it is answered.
  [[nodiscard]] Budget::Hold& hold() {
    if (!held) held = services.budget.open(caller.tenant);
    return *held;
  }
  [[nodiscard]] const http::Request& request() const noexcept { return exchange.request(); }
  [[nodiscard]] control::Fleet& fleet() const noexcept { return services.fleet; }
  [[nodiscard]] const std::string& id() const noexcept { return match.id; }
};

// A refusal with a status of its own, such as 415.
[[nodiscard]] std::unexpected<Error> refuse(Call& call, unsigned status, std::string_view code,
                                            std::string message);

// --- input
// `required`: an absent body is an error; otherwise it is an empty object.
enum class Body : std::uint8_t { Required, Optional };
awaitable<Result<boost::json::object>> read_json(Call& call, Body body);
// A POST that needs no body may carry an empty object, and nothing else.
awaitable<Result<void>> want_nothing(Call& call);

// Query parameters. A malformed one is an error that names it.
[[nodiscard]] std::optional<std::string_view> query_text(const Call& call, std::string_view name);
[[nodiscard]] Result<bool> query_flag(const Call& call, std::string_view name, bool otherwise);
[[nodiscard]] Result<std::optional<std::uint64_t>> query_integer(const Call& call,
                                                                 std::string_view name,
                                                                 std::uint64_t min,
                                                                 std::uint64_t max);
[[nodiscard]] Result<std::optional<std::uint64_t>> whole_number(std::string_view name,
                                                                std::string_view text,
                                                                std::uint64_t min,
                                                                std::uint64_t max);
// {pid} of the path.
[[nodiscard]] Result<std::uint32_t> process_of(const Call& call);
// {path...}: relative to the workspace or absolute, without "..": that is Denied. Empty is left to
// the handler.
[[nodiscard]] Result<std::string> guest_path(std::string_view field, std::string_view text);
// {path...} of a route that takes a folder: without one it is the workspace.
[[nodiscard]] Result<std::string> folder_path(const Call& call);

// --- output
awaitable<Result<void>> answer(Call& call, unsigned status, const boost::json::object& body);
awaitable<Result<void>> answer_nothing(Call& call);  // 204

// Fails with 426 unless the request is a WebSocket's.
[[nodiscard]] Result<void> want_websocket(Call& call);
// The protocol to answer with: ours when it was offered.
[[nodiscard]] std::string_view chosen_protocol(const Call& call);

}  // namespace caisson::rest
