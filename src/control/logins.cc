#include "control/logins.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "control/access_token.h"
#include "store/digest.h"
#include "sys/file.h"

namespace caisson::control {
namespace {

constexpr std::size_t kSecretLength = 52;
constexpr std::size_t kPurposeBytesMax = 256;
constexpr std::string_view kOpenActor = "open";

using Number = std::uint64_t;  // rises: the smallest is the oldest

struct Login {
  store::Digest digest{};  // of its secret
  std::string token;       // id; empty in open mode
  std::string purpose;
  TimePoint ends;
};

std::unexpected<Error> unknown() {
  return failure(Errc::Unauthenticated, "nobody is logged in here, or no more: log in again");
}

class KeptLogins final : public Logins {
 public:
  KeptLogins(Access& access, std::function<TimePoint()> now)
      : access_(access), now_(std::move(now)) {}

  Result<std::string> open(const Caller& caller, std::string purpose, seconds life) override;
  Result<Caller> find(std::string_view secret, std::string_view purpose) override;
  Result<Caller> take(std::string_view secret, std::string_view purpose) override;
  void close(std::string_view secret) override;
  void close_purpose(std::string_view purpose) override;
  [[nodiscard]] std::size_t count() const override { return logins_.size(); }

 private:
  using Numbers = std::set<Number>;
  using Index = std::map<std::string, Numbers, std::less<>>;

  [[nodiscard]] std::optional<Number> number_of(std::string_view secret) const;
  [[nodiscard]] std::expected<std::pair<Number, Caller>, Error> look(std::string_view secret,
                                                                     std::string_view purpose);
  void drop_ended();
  void make_room(const std::string& token);
  void keep(Login login);
  void drop(Number number);
  static void drop_from(Index& index, const std::string& key, Number number);

  Access& access_;
  std::function<TimePoint()> now_;
  std::map<Number, Login> logins_;
  // The same, to be found by something else. A secret is found by its hash: how long that takes
  // tells nothing about another secret.
  std::map<store::Digest, Number> by_digest_;
  Index by_token_;
  Index by_purpose_;
  std::set<std::pair<TimePoint, Number>> by_end_;
  Number last_ = 0;
};

std::optional<Number> KeptLogins::number_of(std::string_view secret) const {
  if (secret.size() != kSecretLength) return std::nullopt;
  const auto found = by_digest_.find(store::sha256(secret));
  if (found == by_digest_.end()) return std::nullopt;
  return found->second;
}

void KeptLogins::drop_from(Index& index, const std::string& key, Number number) {
  const auto found = index.find(key);
  if (found == index.end()) return;
  found->second.erase(number);
  if (found->second.empty()) index.erase(found);
}

void KeptLogins::drop(Number number) {
  const auto found = logins_.find(number);
  if (found == logins_.end()) return;
  const Login& login = found->second;
  by_digest_.erase(login.digest);
  by_end_.erase({login.ends, number});
  drop_from(by_token_, login.token, number);
  drop_from(by_purpose_, login.purpose, number);
  logins_.erase(found);
}

void KeptLogins::keep(Login login) {
  const Number number = ++last_;
  by_digest_.emplace(login.digest, number);
  by_end_.emplace(login.ends, number);
  by_token_[login.token].insert(number);
  by_purpose_[login.purpose].insert(number);
  logins_.emplace(number, std::move(login));
}

void KeptLogins::drop_ended() {
  const TimePoint now = now_();
  while (!by_end_.empty() && by_end_.begin()->first <= now) drop(by_end_.begin()->second);
}

// A token that logs in again and again pushes out its own logins, not those of others.
void KeptLogins::make_room(const std::string& token) {
  const auto own = by_token_.find(token);
  if (own != by_token_.end() && own->second.size() >= kLoginsPerTokenMax)
    drop(*own->second.begin());
  if (logins_.size() >= kLoginsMax) drop(logins_.begin()->first);
}

Result<std::string> KeptLogins::open(const Caller& caller, std::string purpose, seconds life) {
  if (purpose.empty() || purpose.size() > kPurposeBytesMax) {
    return bad_field("purpose", fmt::format("purpose: want 1 to {} bytes, got {}", kPurposeBytesMax,
                                            purpose.size()));
  }
  if (life <= seconds(0) || life > kConsoleLife) {
    return bad_field("life", fmt::format("life: {} seconds are no time for a login: want 1 to {}",
                                         life.count(), kConsoleLife.count()));
  }
  std::string token = caller.actor == kOpenActor ? std::string() : caller.actor;
  TRY(access_.caller_of(token));  // nobody logs in by a token that works no more
  std::array<std::byte, 32> random{};
  TRY(sys::random_bytes(random));
  std::string secret = base32(random, kSecretLength);
  drop_ended();
  make_room(token);
  keep({.digest = store::sha256(secret),
        .token = std::move(token),
        .purpose = std::move(purpose),
        .ends = now_() + life});
  return secret;
}

std::expected<std::pair<Number, Caller>, Error> KeptLogins::look(std::string_view secret,
                                                                 std::string_view purpose) {
  const auto number = number_of(secret);
  if (!number) return unknown();
  const Login& login = logins_.at(*number);
  if (login.ends <= now_()) {
    drop(*number);
    return unknown();
  }
  if (login.purpose != purpose) return unknown();
  auto caller = access_.caller_of(login.token);
  if (!caller) {
    if (caller.error().code == Errc::Unauthenticated) drop(*number);
    return std::unexpected(std::move(caller).error());
  }
  return std::pair(*number, std::move(*caller));
}

Result<Caller> KeptLogins::find(std::string_view secret, std::string_view purpose) {
  auto found = look(secret, purpose);
  if (!found) return std::unexpected(std::move(found).error());
  return std::move(found->second);
}

Result<Caller> KeptLogins::take(std::string_view secret, std::string_view purpose) {
  auto found = look(secret, purpose);
  if (!found) return std::unexpected(std::move(found).error());
  drop(found->first);
  return std::move(found->second);
}

void KeptLogins::close(std::string_view secret) {
  if (const auto number = number_of(secret)) drop(*number);
}

void KeptLogins::close_purpose(std::string_view purpose) {
  const auto found = by_purpose_.find(purpose);
  if (found == by_purpose_.end()) return;
  const Numbers numbers = found->second;
  for (const Number number : numbers) drop(number);
}

}  // namespace

std::unique_ptr<Logins> Logins::make(Access& access, std::function<TimePoint()> now) {
  return std::make_unique<KeptLogins>(access, std::move(now));
}

}  // namespace caisson::control
