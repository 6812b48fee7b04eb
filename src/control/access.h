// control/access.h — tokens: made, found, judged, withdrawn.
//
// A token is "cais_" + id (12 characters) + "_" + secret (52 characters of base32, 256 random
// bits). One that was taken over from another system is any text of kTakenOverBytesMin and more,
// and its id comes of its hash. The store knows the SHA-256 of a secret only. All of them are held
// in memory, found by id and compared in constant time; an unknown id costs the same hash and the
// same compare. Failures are counted per peer: beyond kFailuresMax in a minute a peer is answered
// Exhausted without a look. They are in the audit as "login", at most one row a second of one peer
// and kLoginRowsMax a minute of all, with the number of those that got no row of their own: a
// stranger cannot fill the disk. A call without any credential is no guess: it is recorded alike
// but does not count against its peer. What a good token may not do is recorded as "denied", by the
// same rule, per token.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/caller.h"
#include "store/digest.h"
#include "store/store.h"

namespace caisson::control {

using boost::asio::awaitable;

inline constexpr int kFailuresMax = 20;            // in a minute, of one peer
inline constexpr std::size_t kPeersMax = 4096;     // remembered; then the oldest is forgotten
inline constexpr std::size_t kTokensMax = 10'000;  // then the oldest dead one makes room
inline constexpr int kLoginRowsMax = 120;          // rows about failures in a minute, of all peers
inline constexpr std::size_t kCredentialBytesMax = 512;
inline constexpr std::size_t kTenantBytesMax = 64;
inline constexpr std::size_t kTokenLabelBytesMax = 128;
inline constexpr double kTokenSecondsMax = 10.0 * 366 * 86400;
inline constexpr std::int64_t kTokenSandboxesMax = 1'000'000;
inline constexpr std::size_t kTakenOverBytesMin = 32;  // as text: less could be guessed

struct TokenWish {
  std::string tenant = "default";
  std::string label;
  std::uint8_t scopes = 0;
  std::optional<double> expires_seconds;
  std::int64_t max_sandboxes = 0;
  // One that another system gave out, taken over: its text, which is kept nowhere. Empty: a new
  // one.
  std::string taken_over{};
};

struct NewToken {
  store::TokenRecord record;
  std::string secret;  // the whole token: shown once, kept nowhere; empty of one taken over
};

// For tests: what time it is.
struct AccessClock {
  std::function<TimePoint()> now = [] { return Clock::now(); };
  std::function<store::WallTime()> wall = [] { return store::wall_now(); };
};

// How a secret is compared. For tests, which count: whatever is asked with, both are called once.
struct SecretCheck {
  std::function<store::Digest(std::string_view)> hash = store::sha256;
  std::function<bool(const store::Digest&, const store::Digest&)> equal =
      store::equal_in_constant_time;
};

// Lives on the I/O thread, and not longer than the store.
class Access {
 public:
  virtual ~Access() = default;
  // Loads the tokens. `open`: nobody needs one, every caller is the tenant "default" with all
  // scopes; the door sees to it that only this machine can reach such a server.
  [[nodiscard]] static Result<std::unique_ptr<Access>> make(store::Store& store, bool open,
                                                            AccessClock clock = {},
                                                            SecretCheck check = {});

  // `credential` is what stood behind Bearer or in X-API-Key; empty when there was none.
  [[nodiscard]] virtual Result<Caller> authenticate(std::string_view credential,
                                                    std::string_view peer) = 0;
  // The caller that a token of this id makes, for who has shown it before (logins.h): withdrawn and
  // expired ones make none. In open mode, with an empty id, everybody's.
  [[nodiscard]] virtual Result<Caller> caller_of(std::string_view token) = 0;
  // Calls `cut` when the caller's token is withdrawn, or expires, while the result lives. Nothing
  // for a caller without a token.
  [[nodiscard]] virtual std::shared_ptr<void> watch(const Caller& caller,
                                                    const boost::asio::any_io_executor& executor,
                                                    std::function<void()> cut) = 0;
  // A door refused a call for want of a scope: `what` is the route.
  virtual void denied(const Caller& caller, std::string_view what) = 0;
  // Admins only, for every tenant. `caller` lives until the answer is there.
  // AlreadyExists for one that was taken over before.
  virtual awaitable<Result<NewToken>> create(const Caller& caller, TokenWish wish) = 0;
  virtual awaitable<Result<void>> revoke(const Caller& caller, std::string id) = 0;
  // Without the hashes. Nothing for a caller who is no admin.
  [[nodiscard]] virtual std::vector<store::TokenRecord> list(const Caller& caller) const = 0;
  // The first start: true when no token was ever made.
  [[nodiscard]] virtual bool empty() const = 0;
  [[nodiscard]] virtual std::uint64_t failures() const = 0;
};

// A fresh one, not yet stored. For the first start and for `caisson token create`.
[[nodiscard]] Result<NewToken> make_token(const TokenWish& wish);
[[nodiscard]] Result<std::uint8_t> parse_scopes(std::string_view comma_separated);
[[nodiscard]] std::string scopes_text(std::uint8_t scopes);

}  // namespace caisson::control
