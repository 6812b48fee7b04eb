// The part of the core that only a launcher for many needs: what a new server asks about sandboxes
// that an older one made.
#include <algorithm>

#include "engine/launcher/core.h"
#include "engine/native/gate_sockets.h"
#include "engine/native/network_socket.h"

namespace caisson::engine {

std::vector<Living> LauncherCore::living(const std::string& after, std::size_t max) {
  std::vector<Living> found;
  const TimePoint now = Clock::now();
  for (auto at = live_.upper_bound(after); at != live_.end() && found.size() < max; ++at) {
    Live& live = at->second;
    reap(live);
    Living one;
    one.id = at->first;
    one.init_pid = live.sandbox.init_pid();
    one.record = live.record;
    one.limits = live.limits;
    one.stack = live.request.stack;
    one.storage = live.request.storage;
    one.frozen = live.frozen;
    one.standing = live.standing.has_value();
    one.ended = live.end != EndReason::Running;
    one.age_us =
        static_cast<std::uint64_t>(duration_cast<microseconds>(now - live.started).count());
    // One that is over its time and not yet looked at still has a time to live: the shortest.
    if (live.limits.life_us != 0)
      one.life_left_us = live.limits.life_us > one.age_us ? live.limits.life_us - one.age_us : 1;
    found.push_back(std::move(one));
  }
  return found;
}

Result<Nonce> LauncherCore::nonce(const std::string& id) { return TRY(find(id))->sandbox.nonce(); }

Result<UniqueFd> LauncherCore::socket_inside(const std::string& id, int family) {
  Live* live = TRY(find(id));
  if (live->end != EndReason::Running || live->sandbox.pidfd() < 0)
    return failure(Errc::Gone, "sandbox '" + id + "' has ended");
  if (is_carried(live->request)) {
    return failure(Errc::Unsupported, "ports of a sandbox of tier '" +
                                          std::string(tier_name(live->request.tier)) +
                                          "' cannot be reached in this version");
  }
  return native::socket_in_network_of(live->sandbox.pidfd(), family);
}

Result<GateSockets> LauncherCore::open_gate(const std::string& id,
                                            const std::vector<std::uint16_t>& ports,
                                            std::uint16_t proxy) {
  LaunchRequest judged;
  judged.gate_ports = ports;
  judged.gate_proxy = proxy;
  TRY(check(judged));
  Live* live = TRY(find(id));
  if (live->end != EndReason::Running || live->sandbox.pidfd() < 0)
    return failure(Errc::Gone, "sandbox '" + id + "' has ended");
  return native::open_gate_in(live->sandbox.pidfd(), ports, proxy);
}

int LauncherCore::pidfd(const std::string& id) const noexcept {
  const auto at = live_.find(id);
  return at == live_.end() ? -1 : at->second.sandbox.pidfd();
}

}  // namespace caisson::engine
