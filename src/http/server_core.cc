#include "http/server_core.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace caisson::http {

bool ServerCore::has_room(const std::string& key) const {
  if (counters.open >= limits.connections_max || held + kConnectionBytesMin > kHeldBytesMax) {
    return false;
  }
  const auto found = per_peer.find(key);
  if (found == per_peer.end()) return true;
  const PeerShare& share = found->second;
  return share.connections < limits.connections_per_peer_max &&
         share.held + kConnectionBytesMin <= kHeldBytesPerPeerMax;
}

// splitmix64's finisher: each of its steps can be undone, so different numbers stay different.
std::uint64_t scatter(std::uint64_t n) noexcept {
  n += 0x9e3779b97f4a7c15U;
  n = (n ^ (n >> 30U)) * 0xbf58476d1ce4e5b9U;
  n = (n ^ (n >> 27U)) * 0x94d049bb133111ebU;
  return n ^ (n >> 31U);
}

void ServerCore::write_id(std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::uint64_t bits = scatter(next_id++);
  out.resize(16);
  for (char& digit : out) {
    digit = kDigits[bits & 15U];
    bits >>= 4U;
  }
}

std::string ServerCore::error_body(unsigned status, const Error& error, std::string_view id) {
  return on_error ? on_error(status, error, id) : std::string();
}

Seat::Seat(std::shared_ptr<ServerCore> core, std::string key)
    : core_(std::move(core)), key_(std::move(key)), share_(&core_->per_peer[key_]) {
  ++share_->connections;
  ++core_->counters.connections;
  ++core_->counters.open;
}

Seat::~Seat() {
  if (--share_->connections == 0) core_->per_peer.erase(key_);
  --core_->counters.open;
}

bool Seat::has_room(std::size_t bytes) const noexcept {
  return core_->held + bytes <= kHeldBytesMax && share_->held + bytes <= kHeldBytesPerPeerMax;
}

void Seat::hold(std::size_t bytes) noexcept {
  core_->held += bytes;
  share_->held += bytes;
}

void Seat::give_back(std::size_t bytes) noexcept {
  core_->held -= bytes;
  share_->held -= bytes;
}

Served::Served(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat)
    : core_(std::move(core)), seat_(std::move(seat)) {
  place_ = core_->connections.insert(core_->connections.end(), this);
}

Served::~Served() {
  core_->connections.erase(place_);
  finish_stop(*core_);
}

void finish_stop(ServerCore& core) {
  if (!core.stopping || !core.connections.empty() || !core.done) return;
  boost::asio::post(core.executor, std::exchange(core.done, nullptr));
}

}  // namespace caisson::http
