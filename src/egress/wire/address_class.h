// egress/wire/address_class.h — is this address outside? The resolver's answer is written by the
// owner of a zone, who may point a name at our own machine, its network or its cloud's metadata
// service. An address is public only if no table says otherwise, and an IPv6 address only within
// 2000::/3: what is not assigned yet is not outside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "egress/wire/ip_address.h"

namespace caisson::egress {

enum class AddressClass : std::uint8_t {
  Public,
  Unspecified,    // 0.0.0.0, ::; a connect there reaches this machine
  ThisNetwork,    // 0.0.0.0/8
  Loopback,       // 127.0.0.0/8, ::1
  Private,        // 10/8, 172.16/12, 192.168/16
  SharedCarrier,  // 100.64.0.0/10
  LinkLocal,      // 169.254.0.0/16, fe80::/10
  Metadata,       // where clouds hand out credentials
  UniqueLocal,    // fc00::/7
  SiteLocal,      // fec0::/10, withdrawn but still routed inside some networks
  Multicast,      // 224.0.0.0/4, ff00::/8
  Broadcast,      // 255.255.255.255
  Documentation,  // 192.0.2.0/24 and its sisters, 2001:db8::/32, 3fff::/20
  Benchmarking,   // 198.18.0.0/15 (our own range inside a sandbox), 2001:2::/48
  Assignments,    // 192.0.0.0/24, 2001::/23: protocols of the address registry
  RelayAnycast,   // 192.88.99.0/24, withdrawn
  Reserved,       // 240.0.0.0/4, and IPv6 outside 2000::/3
  Compatible,     // ::a.b.c.d, withdrawn
  SixToFour,      // 2002::/16, withdrawn: a relay unwraps it to any IPv4 address
  Teredo,         // 2001::/32, the same
  LocalNat64,     // 64:ff9b:1::/48: its meaning is up to the network we stand in
};

[[nodiscard]] std::string_view to_string(AddressClass kind) noexcept;

// Through which IPv6 form an IPv4 address was written.
enum class Wrapping : std::uint8_t { None, Mapped, Compatible, SixToFour, Teredo, Nat64 };

struct Judged {
  AddressClass kind = AddressClass::Reserved;
  Wrapping wrapping = Wrapping::None;
  // What the connection is made to: for a mapped address the IPv4 address inside, else as given.
  IpAddress address;
  // What was classified: the IPv4 address inside, or the address itself.
  IpAddress inner;

  [[nodiscard]] bool is_public() const noexcept { return kind == AddressClass::Public; }
};

// An IPv4 address inside an IPv6 one is taken out and judged. Mapped and well-known NAT64 forms are
// as public as what is inside; the withdrawn forms never are, whatever is inside.
[[nodiscard]] Judged classify(const IpAddress& address) noexcept;

// May a rule that names host and address open this class? Not where an address means "whoever is
// there" or "everyone".
[[nodiscard]] bool is_grantable(AddressClass kind) noexcept;

// "169.254.169.254 (metadata service) inside ::ffff:169.254.169.254".
[[nodiscard]] std::string describe(const Judged& judged, const IpAddress& given);

}  // namespace caisson::egress
