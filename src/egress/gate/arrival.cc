#include "egress/gate/arrival.h"

#include "egress/wire/address_class.h"
#include "egress/wire/synthetic.h"

namespace caisson::egress {

Arrival arrival_at(const Endpoint& to, std::uint16_t proxy) noexcept {
  // First: an address of a name is that name on every port, ours included.
  if (is_synthetic(to.address)) return {Role::Transparent, to};
  const Judged judged = classify(to.address);
  if (judged.kind != AddressClass::Loopback || judged.wrapping != Wrapping::None) {
    return {Role::Stranger, to};
  }
  if (to.port == kProxyPort || to.port == kSocksPort) return {Role::Proxy, to};
  if (to.port == kResolverPort) return {Role::Resolver, to};
  if (proxy != 0 && to.port == proxy) return {Role::Proxy, to};
  return {Role::Stranger, to};
}

}  // namespace caisson::egress
