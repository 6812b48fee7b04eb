#include "control/access_guard.h"

#include <fmt/format.h>

#include <boost/asio/ip/address.hpp>

#include "control/access.h"

namespace caisson::control {
namespace {

constexpr seconds kWindow{60};
constexpr std::size_t kPeerBytesMax = 64;

}  // namespace

store::AuditEvent AccessGuard::row(std::string_view peer) const {
  store::AuditEvent event;
  event.actor = "unknown";
  event.action = action_;
  event.object = peer;
  event.outcome = store::Outcome::Denied;
  return event;
}

std::string peer_key(std::string_view peer) {
  boost::system::error_code error;
  const auto address =
      boost::asio::ip::make_address(std::string(peer.substr(0, kPeerBytesMax)), error);
  if (error || address.is_v4()) return std::string(peer.substr(0, kPeerBytesMax));
  const auto v6 = address.to_v6();
  if (v6.is_v4_mapped())
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6).to_string();
  auto bytes = v6.to_bytes();
  for (std::size_t at = 8; at < bytes.size(); ++at) bytes[at] = 0;
  return boost::asio::ip::address_v6(bytes).to_string() + "/64";
}

AccessGuard::Peer& AccessGuard::find(std::string_view peer, TimePoint now) {
  std::string key = peer_key(peer);
  const auto known = index_.find(key);
  if (known != index_.end()) {
    peers_.splice(peers_.begin(), peers_, known->second);
  } else {
    if (peers_.size() >= kPeersMax) {
      forgotten_ += peers_.back().untold;
      index_.erase(peers_.back().key);
      peers_.pop_back();
    }
    peers_.push_front(Peer{.key = key, .begin = now, .told = now});
    index_.emplace(std::move(key), peers_.begin());
  }
  Peer& found = peers_.front();
  if (now - found.begin >= kWindow) {
    found.begin = now;
    found.guesses = 0;
  }
  return found;
}

seconds AccessGuard::blocked_for(std::string_view peer, TimePoint now) {
  const auto known = index_.find(peer_key(peer));
  if (known == index_.end()) return seconds(0);
  const Peer& found = *known->second;
  const auto left = kWindow - (now - found.begin);
  if (found.guesses < kFailuresMax || left <= nanoseconds(0)) return seconds(0);
  return std::chrono::ceil<seconds>(left);
}

bool AccessGuard::may_tell(const Peer& peer, TimePoint now) {
  if (now - minute_ >= kWindow) {
    minute_ = now;
    rows_ = 0;
  }
  if (rows_ >= kLoginRowsMax) return false;
  const seconds apart = peer.guesses > kFailuresMax ? kWindow : seconds(1);
  return !peer.ever_told || now - peer.told >= apart;
}

std::vector<store::AuditEvent> AccessGuard::failed(std::string_view peer, const LoginFailure& what,
                                                   Guess guess, TimePoint now) {
  ++failures_;
  Peer& found = find(peer, now);
  if (guess == Guess::Counts && found.guesses <= kFailuresMax) ++found.guesses;
  if (!may_tell(found, now)) {
    ++found.untold;
    return {};
  }
  ++rows_;
  store::AuditEvent event = row(peer.substr(0, kPeerBytesMax));
  if (!what.tenant.empty()) {
    event.tenant = what.tenant;
    event.actor = what.token;
  }
  event.detail = fmt::format(R"({{"reason":"{}","token":"{}","failures_before":{}}})", what.reason,
                             what.token, found.untold);
  found.untold = 0;
  found.told = now;
  found.ever_told = true;
  return {std::move(event)};
}

store::AuditEvent AccessGuard::summary(const std::string& key, std::uint64_t count) const {
  store::AuditEvent event = row(key);
  event.detail = fmt::format(R"({{"reason":"more failures","failures_before":{}}})", count);
  return event;
}

std::vector<store::AuditEvent> AccessGuard::owed(TimePoint now) {
  std::vector<store::AuditEvent> rows;
  if (now - looked_ < seconds(1)) return rows;
  looked_ = now;
  for (Peer& peer : peers_) {
    if (peer.untold == 0 || !may_tell(peer, now)) continue;
    ++rows_;
    rows.push_back(summary(peer.key, peer.untold));
    peer.untold = 0;
    peer.told = now;
    peer.ever_told = true;
  }
  if (forgotten_ > 0 && rows_ < kLoginRowsMax) {
    ++rows_;
    rows.push_back(summary("others", forgotten_));
    forgotten_ = 0;
  }
  return rows;
}

std::vector<store::AuditEvent> AccessGuard::drain() {
  std::uint64_t count = std::exchange(forgotten_, 0);
  for (Peer& peer : peers_) count += std::exchange(peer.untold, 0);
  if (count == 0) return {};
  return {summary("others", count)};
}

}  // namespace caisson::control
