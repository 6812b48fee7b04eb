// control/access_guard.h — who failed to log in, how often, and what the audit hears of it.
//
// A peer is an address; of IPv6 the first 64 bits, because one machine has all the others. Memory
// is bounded by kPeersMax, rows by one a second and peer (one a minute once it is blocked) and by
// kLoginRowsMax a minute in all. What got no row is counted, and the next row says how many.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "store/store.h"

namespace caisson::control {

enum class Guess : std::uint8_t {
  Counts,
  Harmless
};  // a call without a credential guesses nothing

struct LoginFailure {
  std::string_view reason;  // constant text
  std::string_view token;   // id, when it was written as one; else empty
  std::string_view tenant;  // when the caller proved to be of it; else empty
};

[[nodiscard]] std::string peer_key(std::string_view peer);

class AccessGuard {
 public:
  // `action` is what its rows are called.
  explicit AccessGuard(std::string action = "login") : action_(std::move(action)) {}

  // How long the peer has to wait; zero when it may try.
  [[nodiscard]] seconds blocked_for(std::string_view peer, TimePoint now);

  // Remembers a failure. Returns the rows that are to be written, often none.
  [[nodiscard]] std::vector<store::AuditEvent> failed(std::string_view peer,
                                                      const LoginFailure& what, Guess guess,
                                                      TimePoint now);
  // Rows for what was counted and not yet told; looks at most once a second.
  [[nodiscard]] std::vector<store::AuditEvent> owed(TimePoint now);
  // All of it, at the end.
  [[nodiscard]] std::vector<store::AuditEvent> drain();

  [[nodiscard]] std::uint64_t failures() const noexcept { return failures_; }
  [[nodiscard]] std::size_t peers() const noexcept { return peers_.size(); }

 private:
  struct Peer {
    std::string key;
    TimePoint begin;  // of its minute
    int guesses = 0;  // in that minute
    TimePoint told;   // when it last had a row
    bool ever_told = false;
    std::uint64_t untold = 0;
  };

  Peer& find(std::string_view peer, TimePoint now);
  [[nodiscard]] bool may_tell(const Peer& peer, TimePoint now);
  [[nodiscard]] store::AuditEvent row(std::string_view peer) const;
  [[nodiscard]] store::AuditEvent summary(const std::string& key, std::uint64_t count) const;

  std::string action_;
  std::list<Peer> peers_;  // the one that failed last is first
  std::unordered_map<std::string, std::list<Peer>::iterator> index_;
  std::uint64_t failures_ = 0;
  std::uint64_t forgotten_ = 0;  // untold failures of peers that are remembered no more
  TimePoint minute_{};           // of the rows in all
  int rows_ = 0;
  TimePoint looked_{};
};

}  // namespace caisson::control
