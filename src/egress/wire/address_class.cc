#include "egress/wire/address_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace caisson::egress {

namespace {

struct V4Block {
  std::uint32_t base;
  unsigned bits;
  AddressClass kind;
};

constexpr std::uint32_t ip(unsigned a, unsigned b, unsigned c, unsigned d) {
  return (a << 24) | (b << 16) | (c << 8) | d;
}

// The first block that holds the address decides, so single addresses stand before their networks.
constexpr std::array<V4Block, 24> kV4Blocks = {{
    {ip(169, 254, 169, 254), 32, AddressClass::Metadata},  // nearly every cloud
    {ip(169, 254, 170, 2), 32, AddressClass::Metadata},    // credentials of Amazon's containers
    {ip(169, 254, 170, 23), 32, AddressClass::Metadata},   // credentials of Amazon's pods
    {ip(100, 100, 100, 200), 32, AddressClass::Metadata},  // Alibaba
    {ip(168, 63, 129, 16), 32, AddressClass::Metadata},    // Azure; looks public, is the host
    {ip(192, 0, 0, 192), 32, AddressClass::Metadata},      // Oracle
    {ip(0, 0, 0, 0), 32, AddressClass::Unspecified},
    {ip(0, 0, 0, 0), 8, AddressClass::ThisNetwork},
    {ip(10, 0, 0, 0), 8, AddressClass::Private},
    {ip(100, 64, 0, 0), 10, AddressClass::SharedCarrier},
    {ip(127, 0, 0, 0), 8, AddressClass::Loopback},
    {ip(169, 254, 0, 0), 16, AddressClass::LinkLocal},
    {ip(172, 16, 0, 0), 12, AddressClass::Private},
    {ip(192, 0, 0, 0), 24, AddressClass::Assignments},
    {ip(192, 0, 2, 0), 24, AddressClass::Documentation},
    {ip(192, 88, 99, 0), 24, AddressClass::RelayAnycast},
    {ip(192, 168, 0, 0), 16, AddressClass::Private},
    {ip(198, 18, 0, 0), 15, AddressClass::Benchmarking},
    {ip(198, 51, 100, 0), 24, AddressClass::Documentation},
    {ip(203, 0, 113, 0), 24, AddressClass::Documentation},
    {ip(233, 252, 0, 0), 24, AddressClass::Documentation},
    {ip(224, 0, 0, 0), 4, AddressClass::Multicast},
    {ip(255, 255, 255, 255), 32, AddressClass::Broadcast},
    {ip(240, 0, 0, 0), 4, AddressClass::Reserved},
}};

constexpr bool in_block(std::uint32_t value, const V4Block& block) {
  const std::uint32_t mask = block.bits == 0 ? 0 : ~std::uint32_t{0} << (32 - block.bits);
  return (value & mask) == block.base;
}

constexpr bool bases_are_aligned() {
  return std::ranges::all_of(kV4Blocks,
                             [](const V4Block& block) { return in_block(block.base, block); });
}
static_assert(bases_are_aligned(), "a base with bits behind its prefix would match nothing");

struct V6Block {
  std::array<std::uint16_t, 8> base;
  unsigned bits;
  AddressClass kind;
};

constexpr std::array<V6Block, 16> kV6Blocks = {{
    {{0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254}, 128, AddressClass::Metadata},  // Amazon
    {{0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0023}, 128, AddressClass::Metadata},  // Amazon's pods
    {{0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254}, 128, AddressClass::Metadata},  // Google
    {{0, 0, 0, 0, 0, 0, 0, 0}, 128, AddressClass::Unspecified},
    {{0, 0, 0, 0, 0, 0, 0, 1}, 128, AddressClass::Loopback},
    {{0x0064, 0xff9b, 0x0001, 0, 0, 0, 0, 0}, 48, AddressClass::LocalNat64},
    {{0xfc00, 0, 0, 0, 0, 0, 0, 0}, 7, AddressClass::UniqueLocal},
    {{0xfe80, 0, 0, 0, 0, 0, 0, 0}, 10, AddressClass::LinkLocal},
    {{0xfec0, 0, 0, 0, 0, 0, 0, 0}, 10, AddressClass::SiteLocal},
    {{0xff00, 0, 0, 0, 0, 0, 0, 0}, 8, AddressClass::Multicast},
    {{0x2001, 0x0002, 0, 0, 0, 0, 0, 0}, 48, AddressClass::Benchmarking},
    {{0x2001, 0, 0, 0, 0, 0, 0, 0}, 23, AddressClass::Assignments},
    {{0x2001, 0x0db8, 0, 0, 0, 0, 0, 0}, 32, AddressClass::Documentation},
    {{0x3fff, 0, 0, 0, 0, 0, 0, 0}, 20, AddressClass::Documentation},
    {{0x5f00, 0, 0, 0, 0, 0, 0, 0}, 16, AddressClass::Reserved},  // segment routing
    {{0x2000, 0, 0, 0, 0, 0, 0, 0}, 3, AddressClass::Public},
}};

constexpr std::uint8_t base_byte(const V6Block& block, std::size_t i) {
  const unsigned group = block.base[i / 2];
  return static_cast<std::uint8_t>(i % 2 == 0 ? group >> 8 : group & 0xff);
}

constexpr bool in_block(const IpAddress& address, const V6Block& block) {
  for (std::size_t i = 0; i < 16; ++i) {
    const unsigned first_bit = static_cast<unsigned>(i) * 8;
    if (first_bit >= block.bits) return true;
    const unsigned bits = std::min(block.bits - first_bit, 8U);
    const unsigned mask = (0xff00U >> bits) & 0xffU;
    if (((address[i] ^ base_byte(block, i)) & mask) != 0) return false;
  }
  return true;
}

AddressClass kind_of_v4(const IpAddress& address) noexcept {
  const std::uint32_t value = address.u32();
  for (const V4Block& block : kV4Blocks) {
    if (in_block(value, block)) return block.kind;
  }
  return AddressClass::Public;
}

AddressClass kind_of_v6(const IpAddress& address) noexcept {
  for (const V6Block& block : kV6Blocks) {
    if (in_block(address, block)) return block.kind;
  }
  return AddressClass::Reserved;
}

struct Form {
  V6Block block;
  std::size_t at;          // where the IPv4 address stands
  std::uint32_t inverted;  // Teredo hides it from address translators by inverting its bits
  Wrapping wrapping;
  AddressClass if_public;  // what the whole is when the inside is public
};

constexpr std::array<Form, 6> kForms = {{
    {{{0, 0, 0, 0, 0, 0xffff, 0, 0}, 96, {}}, 12, 0, Wrapping::Mapped, AddressClass::Public},
    {{{0x64, 0xff9b, 0, 0, 0, 0, 0, 0}, 96, {}}, 12, 0, Wrapping::Nat64, AddressClass::Public},
    {{{0x64, 0xff9b, 1, 0, 0, 0, 0, 0}, 48, {}}, 12, 0, Wrapping::Nat64, AddressClass::LocalNat64},
    {{{0x2002, 0, 0, 0, 0, 0, 0, 0}, 16, {}}, 2, 0, Wrapping::SixToFour, AddressClass::SixToFour},
    {{{0x2001, 0, 0, 0, 0, 0, 0, 0}, 32, {}},
     12,
     0xffffffff,
     Wrapping::Teredo,
     AddressClass::Teredo},
    {{{0, 0, 0, 0, 0, 0, 0, 0}, 96, {}}, 12, 0, Wrapping::Compatible, AddressClass::Compatible},
}};

}  // namespace

std::string_view to_string(AddressClass kind) noexcept {
  switch (kind) {
    case AddressClass::Public:
      return "public";
    case AddressClass::Unspecified:
      return "unspecified";
    case AddressClass::ThisNetwork:
      return "this network";
    case AddressClass::Loopback:
      return "loopback";
    case AddressClass::Private:
      return "private";
    case AddressClass::SharedCarrier:
      return "shared by a carrier";
    case AddressClass::LinkLocal:
      return "link-local";
    case AddressClass::Metadata:
      return "metadata service";
    case AddressClass::UniqueLocal:
      return "unique local";
    case AddressClass::SiteLocal:
      return "site-local";
    case AddressClass::Multicast:
      return "multicast";
    case AddressClass::Broadcast:
      return "broadcast";
    case AddressClass::Documentation:
      return "documentation";
    case AddressClass::Benchmarking:
      return "benchmarking";
    case AddressClass::Assignments:
      return "protocol assignments";
    case AddressClass::RelayAnycast:
      return "6to4 relay";
    case AddressClass::Reserved:
      return "reserved";
    case AddressClass::Compatible:
      return "IPv4-compatible";
    case AddressClass::SixToFour:
      return "6to4";
    case AddressClass::Teredo:
      return "Teredo";
    case AddressClass::LocalNat64:
      return "local NAT64";
  }
  return "reserved";
}

Judged classify(const IpAddress& address) noexcept {
  if (address.family() == IpFamily::V4) {
    return Judged{kind_of_v4(address), Wrapping::None, address, address};
  }
  const AddressClass own = kind_of_v6(address);
  // ::, ::1 and the addresses of metadata services are themselves, not IPv4 in disguise.
  const bool is_itself = own == AddressClass::Unspecified || own == AddressClass::Loopback;
  for (const Form& form : kForms) {
    if (is_itself || !in_block(address, form.block)) continue;
    const IpAddress inner = IpAddress::v4(address.u32(form.at) ^ form.inverted);
    const AddressClass inside = kind_of_v4(inner);
    const AddressClass kind = inside == AddressClass::Public ? form.if_public : inside;
    const bool mapped = form.wrapping == Wrapping::Mapped;
    return Judged{kind, form.wrapping, mapped ? inner : address, inner};
  }
  return Judged{own, Wrapping::None, address, address};
}

bool is_grantable(AddressClass kind) noexcept {
  switch (kind) {
    case AddressClass::Public:
    case AddressClass::Loopback:
    case AddressClass::Private:
    case AddressClass::SharedCarrier:
    case AddressClass::LinkLocal:
    case AddressClass::UniqueLocal:
    case AddressClass::SiteLocal:
    case AddressClass::Documentation:
    case AddressClass::Benchmarking:
    case AddressClass::Metadata:
      return true;
    default:
      return false;
  }
}

std::string describe(const Judged& judged, const IpAddress& given) {
  const std::string inner = to_string(judged.inner);
  if (judged.wrapping == Wrapping::None) {
    return fmt::format("{} ({})", inner, to_string(judged.kind));
  }
  return fmt::format("{} ({}) inside {}", inner, to_string(judged.kind), to_string(given));
}

}  // namespace caisson::egress
