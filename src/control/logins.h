// control/logins.h — who has shown a token once, and is known by another secret from then on.
//
// A browser keeps no token: it logs in, and a cookie stands for it. A login is good for one purpose
// only: kConsolePurpose, or the name of one preview host, so that a secret that a page has seen
// opens nothing else. Secrets are 256 random bits, kept as SHA-256, in memory: they end with the
// server. Each use asks Access again, so a withdrawn token ends its logins.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "control/access.h"
#include "control/caller.h"

namespace caisson::control {

inline constexpr std::string_view kConsolePurpose = "console";
inline constexpr std::size_t kLoginsMax = 20'000;         // of all; the oldest makes room
inline constexpr std::size_t kLoginsPerTokenMax = 1'000;  // then the token's own oldest
inline constexpr seconds kConsoleLife{24 * 3600};
inline constexpr seconds kTicketLife{60};  // one use, from a link to a cookie
inline constexpr seconds kPreviewLife{12 * 3600};

class Logins {
 public:
  virtual ~Logins() = default;
  // `access` outlives it.
  [[nodiscard]] static std::unique_ptr<Logins> make(
      Access& access, std::function<TimePoint()> now = [] { return Clock::now(); });

  // The secret, 52 characters of lower-case base32: shown once, kept nowhere.
  [[nodiscard]] virtual Result<std::string> open(const Caller& caller, std::string purpose,
                                                 seconds life) = 0;
  // Unauthenticated when there is none, it has ended, or it is for something else.
  [[nodiscard]] virtual Result<Caller> find(std::string_view secret, std::string_view purpose) = 0;
  // The same, and it ends by that.
  [[nodiscard]] virtual Result<Caller> take(std::string_view secret, std::string_view purpose) = 0;
  virtual void close(std::string_view secret) = 0;
  // All of one purpose: a sandbox is gone.
  virtual void close_purpose(std::string_view purpose) = 0;
  [[nodiscard]] virtual std::size_t count() const = 0;
};

}  // namespace caisson::control
