#include "control/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>
#include <utility>

#include "control/access_guard.h"
#include "control/access_token.h"
#include "control/await_store.h"
#include "control/open_calls.h"

namespace caisson::control {
namespace {

using store::Outcome;
using store::TokenRecord;
using store::WallTime;

constexpr WallTime kMinute = 60'000'000;
constexpr WallTime kSilence = 60 * kMinute;  // a token that comes back after it logs in anew
constexpr std::uint8_t kAllScopes = 15;

struct Token {
  TokenRecord record;
  store::Digest digest{};
  std::string peer;      // that used it last
  bool unsaved = false;  // withdrawn, but the store does not know it yet
  // Set by the writer's thread: the row of its login could not be written.
  std::shared_ptr<std::atomic<bool>> login_lost = std::make_shared<std::atomic<bool>>(false);
};

store::AuditEvent event_of(const Caller& who, std::string_view action, const std::string& object,
                           Outcome outcome) {
  store::AuditEvent event;
  event.tenant = who.tenant;
  event.actor = who.actor;
  event.action = action;
  event.object = object;
  event.outcome = outcome;
  event.request_id = who.request_id;
  return event;
}

Caller caller_from(const TokenRecord& record) {
  return Caller{.tenant = record.tenant,
                .actor = record.id,
                .scopes = record.scopes,
                .max_sandboxes = record.max_sandboxes,
                .peer = "",
                .request_id = ""};
}

constexpr const char* kWithdrawn = "the token was withdrawn: have a new one made";
constexpr const char* kExpired = "the token has expired: have a new one made";

// Its words look at the credential and at the token's record.
struct Refusal {
  LoginFailure what;
  Guess guess;
  const char* message;
};

class StoredAccess final : public Access {
 public:
  StoredAccess(store::Store& store, bool open, AccessClock clock, SecretCheck check)
      : store_(store), open_(open), clock_(std::move(clock)), check_(std::move(check)) {}
  ~StoredAccess() override {
    tell(guard_.drain());
    tell(denials_.drain());
  }
  [[nodiscard]] Result<void> load();

  Result<Caller> authenticate(std::string_view credential, std::string_view peer) override;
  Result<Caller> caller_of(std::string_view token) override;
  std::shared_ptr<void> watch(const Caller& caller, const boost::asio::any_io_executor& executor,
                              std::function<void()> cut) override;
  void denied(const Caller& caller, std::string_view what) override;
  awaitable<Result<NewToken>> create(const Caller& caller, TokenWish wish) override;
  awaitable<Result<void>> revoke(const Caller& caller, std::string id) override;
  [[nodiscard]] std::vector<TokenRecord> list(const Caller& caller) const override;
  [[nodiscard]] bool empty() const override { return tokens_.empty() && pending_.empty(); }
  [[nodiscard]] std::uint64_t failures() const override { return guard_.failures(); }

 private:
  using Tokens = std::map<std::string, Token, std::less<>>;

  [[nodiscard]] std::expected<Token*, Refusal> judge(std::string_view credential);
  [[nodiscard]] Caller everybody() const;
  void note_use(Token& token);
  [[nodiscard]] Result<void> touch(Token& token, std::string_view peer);
  void tell(std::vector<store::AuditEvent> rows);
  void refuse(std::string_view peer, const LoginFailure& what, Guess guess);
  [[nodiscard]] Result<std::optional<Token>> make_room();
  [[nodiscard]] Result<NewToken> make_unused(const TokenWish& wish) const;
  awaitable<Result<void>> deny(Caller who, std::string action, std::string object);

  store::Store& store_;
  bool open_;
  AccessClock clock_;
  SecretCheck check_;
  Tokens tokens_;
  std::set<std::string> pending_;  // ids of those made, and not yet durable
  AccessGuard guard_;
  AccessGuard denials_{"denied"};
  std::shared_ptr<OpenCalls> calls_ = std::make_shared<OpenCalls>();
  // Set by the writer's thread: the last of our rows could not be written.
  std::shared_ptr<std::atomic<bool>> store_fails_ = std::make_shared<std::atomic<bool>>(false);
};

Result<void> StoredAccess::load() {
  const auto records = TRY(store_.tokens());
  for (const TokenRecord& record : records) {
    const auto digest = store::digest_from_hex(record.sha256);
    if (!digest) {
      return failure(Errc::Internal,
                     fmt::format("token {}: its hash in the database is damaged", record.id));
    }
    tokens_.emplace(record.id, Token{.record = record, .digest = *digest, .peer = ""});
  }
  return {};
}

void StoredAccess::tell(std::vector<store::AuditEvent> rows) {
  if (rows.empty()) return;
  store::Store::Batch batch;
  batch.audit = std::move(rows);
  // Nobody waits for it: the caller is refused in any case.
  store_.write(std::move(batch),
               [fails = store_fails_](const Result<void>& written) { fails->store(!written); });
}

std::shared_ptr<void> StoredAccess::watch(const Caller& caller,
                                          const boost::asio::any_io_executor& executor,
                                          std::function<void()> cut) {
  const auto found = tokens_.find(caller.actor);
  if (open_ || found == tokens_.end()) return nullptr;
  const auto expires = found->second.record.expires;
  if (!expires) return calls_->add(caller.actor, caller.request_id, std::move(cut));
  // Its end may lie centuries ahead of what a timer can count to; it is cut to a year, and a call
  // that lasts so long begins anew.
  constexpr WallTime kYear = kMinute * 60 * 24 * 365;
  const microseconds left(std::clamp<WallTime>(*expires - clock_.wall(), 0, kYear));
  return calls_->add_until(caller.actor, caller.request_id, std::move(cut), executor, left);
}

void StoredAccess::denied(const Caller& caller, std::string_view what) {
  const LoginFailure scope{
      .reason = "the scope is missing", .token = caller.actor, .tenant = caller.tenant};
  auto rows = denials_.failed(caller.actor, scope, Guess::Harmless, clock_.now());
  for (store::AuditEvent& row : rows) {
    row.object = what;
    row.request_id = caller.request_id;
  }
  tell(std::move(rows));
}

void StoredAccess::refuse(std::string_view peer, const LoginFailure& what, Guess guess) {
  tell(guard_.failed(peer, what, guess, clock_.now()));
}

Caller StoredAccess::everybody() const {
  return Caller{.tenant = "default",
                .actor = "open",
                .scopes = kAllScopes,
                .max_sandboxes = 0,
                .peer = "",
                .request_id = ""};
}

Result<Caller> StoredAccess::caller_of(std::string_view token) {
  if (open_ && token.empty()) return everybody();
  const auto found = tokens_.find(token);
  if (found == tokens_.end())
    return failure(Errc::Unauthenticated, "the token is not known here any more: log in again");
  const TokenRecord& record = found->second.record;
  if (record.revoked) return failure(Errc::Unauthenticated, kWithdrawn);
  if (record.expires && *record.expires <= clock_.wall())
    return failure(Errc::Unauthenticated, kExpired);
  note_use(found->second);
  return caller_from(record);
}

// No login: that was when the token itself was shown. At most one write a minute.
void StoredAccess::note_use(Token& token) {
  const WallTime minute = clock_.wall() / kMinute * kMinute;
  if (token.record.last_used && *token.record.last_used >= minute) return;
  token.record.last_used = minute;
  store::Store::Batch batch;
  batch.tokens.push_back(token.record);
  store_.write(std::move(batch),
               [fails = store_fails_](const Result<void>& written) { fails->store(!written); });
}

Result<Caller> StoredAccess::authenticate(std::string_view credential, std::string_view peer) {
  if (open_) {
    Caller caller = everybody();
    caller.peer = peer;
    return caller;
  }
  const TimePoint now = clock_.now();
  tell(guard_.owed(now));
  tell(denials_.owed(now));
  // Everybody is looked at, at the same cost: a good token works whatever its neighbour behind the
  // same address has tried. Only failures are counted, and slowed.
  const auto judged = judge(credential);
  if (judged) {
    if (const auto noted = touch(**judged, peer); !noted) return std::unexpected(noted.error());
    Caller caller = caller_from((*judged)->record);
    caller.peer = peer;
    return caller;
  }
  const Refusal& refusal = judged.error();
  const seconds wait = guard_.blocked_for(peer, now);
  if (refusal.guess == Guess::Counts && wait > seconds(0)) {
    refuse(peer, {.reason = "blocked", .token = "", .tenant = ""}, Guess::Counts);
    return failure(
        Errc::Exhausted,
        fmt::format("too many failed logins from here: try again in {} seconds", wait.count()));
  }
  refuse(peer, refusal.what, refusal.guess);
  return failure(Errc::Unauthenticated, refusal.message);
}

std::expected<Token*, Refusal> StoredAccess::judge(std::string_view credential) {
  const auto parsed = parse_credential(credential);
  const std::string_view secret =
      parsed ? parsed->secret : credential.substr(0, kCredentialBytesMax);
  const std::string_view id = parsed ? parsed->id : std::string_view();
  // What is not written as ours may be one that was taken over.
  const std::string other = parsed ? std::string() : taken_over_id(credential).value_or("");
  const auto found = tokens_.find(parsed ? id : std::string_view(other));
  // An unknown id is hashed and compared all the same, with a hash that nothing has.
  const store::Digest nobody{};
  const bool known = found != tokens_.end();
  const bool equal = check_.equal(check_.hash(secret), known ? found->second.digest : nobody);
  if (credential.empty()) {
    return std::unexpected(Refusal{
        {.reason = "no token", .token = "", .tenant = ""},
        Guess::Harmless,
        "a token is wanted: send it as 'Authorization: Bearer TOKEN' or 'X-API-Key: TOKEN'"});
  }
  if (!known || !equal) {
    return std::unexpected(
        Refusal{{.reason = parsed ? "unknown token" : "not a token", .token = id, .tenant = ""},
                Guess::Counts,
                "the token is not known here: check it, or have a new one made"});
  }
  Token& token = found->second;
  // Only who has the whole token hears that it was good once.
  const auto over = [&](const char* reason, const char* message) {
    return std::unexpected(
        Refusal{{.reason = reason, .token = token.record.id, .tenant = token.record.tenant},
                Guess::Counts,
                message});
  };
  if (token.record.revoked) return over("revoked token", kWithdrawn);
  if (token.record.expires && *token.record.expires <= clock_.wall())
    return over("expired token", kExpired);
  return &token;
}

// At most one write a minute for a token, whoever uses it how often. A login that cannot be written
// down is refused: nobody waits for its row, so it is the next call that hears of a row that
// failed.
Result<void> StoredAccess::touch(Token& token, std::string_view peer) {
  const WallTime minute = clock_.wall() / kMinute * kMinute;
  const auto before = token.record.last_used;
  const bool lost = token.login_lost->load();
  if (!lost && before && *before >= minute) return {};
  const bool login = lost || !before || minute - *before > kSilence || token.peer != peer;
  token.record.last_used = minute;
  store::Store::Batch batch;
  batch.tokens.push_back(token.record);
  if (login) {
    Caller who{.tenant = token.record.tenant,
               .actor = token.record.id,
               .scopes = 0,
               .max_sandboxes = 0,
               .peer = "",
               .request_id = ""};
    batch.audit.push_back(event_of(who, "login", std::string(peer), Outcome::Allowed));
    token.peer = peer;
  }
  const bool refused = login && (lost || store_fails_->load());
  store_.write(std::move(batch),
               [fails = store_fails_,
                of_login = login ? token.login_lost : nullptr](const Result<void>& written) {
                 fails->store(!written);
                 if (of_login) of_login->store(!written);
               });
  if (!refused) return {};
  return failure(Errc::StoreFull,
                 "the login cannot be written into the audit: make room on the disk of the state "
                 "directory, then try again");
}

awaitable<Result<void>> StoredAccess::deny(Caller who, std::string action, std::string object) {
  store::Store::Batch batch;
  batch.audit.push_back(event_of(who, action, object, Outcome::Denied));
  const Result<void> written = co_await commit(store_, std::move(batch));
  if (!written) co_return std::unexpected(written.error());
  co_return failure(Errc::Denied, action + ": this token has not the scope 'admin'");
}

// When all places are taken, the oldest token that works no more gives up its own.
Result<std::optional<Token>> StoredAccess::make_room() {
  if (tokens_.size() + pending_.size() < kTokensMax) return std::nullopt;
  const WallTime now = clock_.wall();
  auto oldest = tokens_.end();
  for (auto at = tokens_.begin(); at != tokens_.end(); ++at) {
    const TokenRecord& record = at->second.record;
    const bool dead =
        (record.revoked && !at->second.unsaved) || (record.expires && *record.expires <= now);
    if (dead && (oldest == tokens_.end() || record.created < oldest->second.record.created))
      oldest = at;
  }
  if (oldest == tokens_.end()) {
    return failure(Errc::Exhausted,
                   fmt::format("there are {} tokens already: withdraw some first", kTokensMax));
  }
  std::optional<Token> taken = std::move(oldest->second);
  tokens_.erase(oldest);
  return taken;
}

Result<NewToken> StoredAccess::make_unused(const TokenWish& wish) const {
  for (;;) {
    NewToken made = TRY(make_token_at(wish, clock_.wall()));
    const auto known = tokens_.find(made.record.id);
    if (known == tokens_.end() && !pending_.contains(made.record.id)) return made;
    if (wish.taken_over.empty()) continue;
    const bool withdrawn = known != tokens_.end() && known->second.record.revoked;
    return failure(Errc::AlreadyExists,
                   fmt::format("taken_over: this token was taken over before, as {}{}",
                               made.record.id, withdrawn ? ", and was withdrawn since" : ""));
  }
}

awaitable<Result<NewToken>> StoredAccess::create(const Caller& caller, TokenWish wish) {
  if (!caller.may(store::Scope::Admin)) {
    const Result<void> denied = co_await deny(caller, "token.create", wish.tenant);
    co_return std::unexpected(denied.error());
  }
  Result<NewToken> made = make_unused(wish);
  if (!made) co_return std::unexpected(made.error());
  Result<std::optional<Token>> removed = make_room();
  if (!removed) co_return std::unexpected(removed.error());

  boost::json::object detail = {{"tenant", made->record.tenant},
                                {"label", made->record.label},
                                {"scopes", scopes_text(made->record.scopes)}};
  if (!wish.taken_over.empty()) detail["taken_over"] = true;
  store::Store::Batch batch;
  batch.audit.push_back(event_of(caller, "token.create", made->record.id, Outcome::Allowed));
  batch.audit.back().detail = boost::json::serialize(detail);
  batch.tokens.push_back(made->record);
  if (*removed) batch.forgotten_tokens.push_back((*removed)->record.id);
  pending_.insert(made->record.id);
  const Result<void> written = co_await commit(store_, std::move(batch));
  pending_.erase(made->record.id);
  if (!written) {
    if (*removed) {
      std::string id = (*removed)->record.id;
      tokens_.emplace(std::move(id), std::move(**removed));
    }
    co_return std::unexpected(written.error());
  }
  Token token{.record = made->record,
              .digest = store::digest_from_hex(made->record.sha256).value(),
              .peer = ""};
  tokens_.emplace(made->record.id, std::move(token));
  co_return std::move(*made);
}

awaitable<Result<void>> StoredAccess::revoke(const Caller& caller, std::string id) {
  if (!caller.may(store::Scope::Admin)) co_return co_await deny(caller, "token.revoke", id);
  const auto found = tokens_.find(id);
  if (found == tokens_.end())
    co_return failure(Errc::NotFound, fmt::format("token '{}' does not exist", id.substr(0, 64)));
  Token& token = found->second;
  if (token.record.revoked && !token.unsaved) co_return Result<void>();
  // It works no more from here on, before the disk has heard of it; and a late note of its last use
  // cannot write it back as good.
  if (!token.record.revoked) token.record.revoked = clock_.wall();
  token.unsaved = true;
  calls_->cut(id, caller.request_id);
  store::Store::Batch batch;
  batch.audit.push_back(event_of(caller, "token.revoke", id, Outcome::Allowed));
  batch.tokens.push_back(token.record);
  const Result<void> written = co_await commit(store_, std::move(batch));
  if (!written) {
    co_return std::unexpected(written.error().within(
        "the token works no more, but that is not written down: withdraw it again, or it works "
        "after a restart"));
  }
  const auto again = tokens_.find(id);
  if (again != tokens_.end()) again->second.unsaved = false;
  co_return Result<void>();
}

std::vector<TokenRecord> StoredAccess::list(const Caller& caller) const {
  std::vector<TokenRecord> records;
  if (!caller.may(store::Scope::Admin)) return records;
  for (const auto& [id, token] : tokens_) {
    records.push_back(token.record);
    records.back().sha256.clear();
  }
  std::ranges::sort(records, {}, &TokenRecord::created);
  return records;
}

}  // namespace

Result<std::unique_ptr<Access>> Access::make(store::Store& store, bool open, AccessClock clock,
                                             SecretCheck check) {
  auto access = std::make_unique<StoredAccess>(store, open, std::move(clock), std::move(check));
  TRY(access->load());
  return access;
}

}  // namespace caisson::control
