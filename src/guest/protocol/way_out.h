// guest/protocol/way_out.h — where the way out is found inside, for programs that cannot include
// policy/way_out.h, which says why. A test compares the two.
#pragma once

#include <stdint.h>
#include <string.h>

#include "guest/protocol/protocol.h"

namespace caisson::wire {

constexpr uint16_t kWayOutPorts[] = {3128, 1080, 53};  // the proxy's two, and the resolver's
constexpr uint8_t kWayOutV4[4] = {198, 18, 0, 0};
constexpr unsigned kWayOutV4Bits = 15;
constexpr uint8_t kWayOutV6[16] = {0xfd, 'c', 'a', 'i', 's', 's', 'o', 'n'};
constexpr unsigned kWayOutV6Bits = 64;
constexpr uint16_t kQuestionPort = 53;

inline bool is_synthetic(const Endpoint& at) {
  if (at.family == static_cast<uint16_t>(Family::V6))
    return memcmp(at.address, kWayOutV6, kWayOutV6Bits / 8) == 0;
  return at.family == static_cast<uint16_t>(Family::V4) && at.address[0] == kWayOutV4[0] &&
         (at.address[1] & 0xfeU) == kWayOutV4[1];
}

inline bool is_loopback(const Endpoint& at) {
  constexpr uint8_t kFour[4] = {127, 0, 0, 1};
  constexpr uint8_t kSix[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  if (at.family == static_cast<uint16_t>(Family::V6)) return memcmp(at.address, kSix, 16) == 0;
  return at.family == static_cast<uint16_t>(Family::V4) && memcmp(at.address, kFour, 4) == 0;
}

// Whether a guest's connection may go there: any port of the synthetic addresses, and on the
// loopback the gate's own. `proxy` is where the proxy is found beside them; 0: nowhere.
inline bool is_way_out(const Endpoint& at, uint16_t proxy) {
  if (is_synthetic(at)) return at.port != 0;
  if (!is_loopback(at)) return false;
  for (const uint16_t port : kWayOutPorts) {
    if (at.port == port) return true;
  }
  return proxy != 0 && at.port == proxy;
}

}  // namespace caisson::wire
