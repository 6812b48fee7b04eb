// doors/sandboxer/call.h — one request on its way through the door, and what handlers share.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doors/sandboxer/routes.h"
#include "doors/sandboxer/services.h"
#include "doors/shared/identity.h"
#include "doors/shared/schema.h"

namespace caisson::sandboxer {

inline constexpr std::string_view kJsonType = "application/json";
inline constexpr std::string_view kNoSandbox = "Sandbox not found";
inline constexpr std::size_t kBodyBytesMax = 1024UL * 1024;

// It lives in the frame of Door::handle, as long as its handler runs.
struct Call {
  http::Exchange& exchange;
  ServicesPtr shared;
  Match match{};
  control::Caller caller{};
  std::string login{};  // secret of the cookie by which he is known
  bool body_missing = true;
  boost::json::value body{};
  std::vector<std::pair<std::string, std::string>> query{};
  // Set where an answer has words of its own; then the error's are not used.
  struct Refusal {
    unsigned status = 0;
    std::string body;
  };
  std::optional<Refusal> refusal{};
  std::unique_ptr<doors::Budget::Hold> held{};

  // What this call holds of the tenant's bytes, until it is answered.
  [[nodiscard]] doors::Budget::Hold& hold() {
    if (!held) held = services().budget.open(caller.tenant);
    return *held;
  }
  [[nodiscard]] Services& services() const noexcept { return *shared; }
  [[nodiscard]] const http::Request& request() const noexcept { return exchange.request(); }
  [[nodiscard]] control::Fleet& fleet() const noexcept { return shared->fleet; }
  [[nodiscard]] const SandboxerOptions& options() const noexcept { return shared->options; }
};

// {"detail": TEXT}
[[nodiscard]] std::string detail_body(std::string_view text);
// A refusal with a status and words of its own.
[[nodiscard]] std::unexpected<Error> refuse(Call& call, unsigned status, std::string_view detail);
[[nodiscard]] std::unexpected<Error> refuse(Call& call, const doors::Problems& problems);  // 422
// What an error of control becomes, where a handler knows nothing better.
[[nodiscard]] Call::Refusal refusal_of(const Error& error);

// Exhausted when so many bytes of an answer find no room beside the tenant's others: they stay
// until the last of them is sent, however slowly it is read.
[[nodiscard]] Result<void> hold_answer(Call& call, std::size_t bytes);
awaitable<Result<void>> answer(Call& call, const boost::json::object& body);

// The body as JSON, into the call. What is wrong with it is a refusal.
awaitable<Result<void>> read_body(Call& call);
// Its fields; nothing, and a refusal, when there is no body.
[[nodiscard]] Result<void> need_body(Call& call);

// Query parameters; what is wrong is in `problems`.
[[nodiscard]] bool query_flag(const Call& call, std::string_view name, doors::Problems& problems);
[[nodiscard]] std::int64_t query_integer(const Call& call, std::string_view name,
                                         std::int64_t otherwise, doors::Problems& problems);

// The caller's own row that the path names, living or not; else a 404.
[[nodiscard]] Result<RowPtr> any_row(Call& call);
[[nodiscard]] Result<RowPtr> any_row(Call& call, std::string_view id);
[[nodiscard]] Result<RowPtr> living_row(Call& call);
[[nodiscard]] Result<RowPtr> living_row(Call& call, std::string_view id);

}  // namespace caisson::sandboxer
