#include "egress/wire/synthetic.h"

#include "policy/way_out.h"

namespace caisson::egress {

namespace {

constexpr std::uint32_t kV4Base = (std::uint32_t{policy::kSyntheticV4[0]} << 24U) |
                                  (std::uint32_t{policy::kSyntheticV4[1]} << 16U);
constexpr std::uint32_t kV4Size = 1U << (32 - policy::kSyntheticV4Bits);
static_assert(kSyntheticFirst + kSyntheticNamesMax <= kV4Size);

constexpr IpAddress::V6 kV6Base = policy::kSyntheticV6;
constexpr std::size_t kV6PrefixBytes = policy::kSyntheticV6Bits / 8;

// The offset in its range, of either family.
std::optional<std::uint32_t> offset_of(const IpAddress& address) noexcept {
  if (address.family() == IpFamily::V4) {
    const std::uint32_t offset = address.u32() - kV4Base;
    if (address.u32() < kV4Base || offset >= kV4Size) return std::nullopt;
    return offset;
  }
  for (std::size_t i = 0; i < kV6PrefixBytes; ++i) {
    if (address[i] != kV6Base[i]) return std::nullopt;
  }
  // In the prefix, but further than any name: an offset that no name has.
  if (address.u32(8) != 0) return kV4Size;
  return address.u32(12);
}

}  // namespace

SyntheticPair synthetic_pair(std::uint32_t index) noexcept {
  const std::uint32_t offset = kSyntheticFirst + index;
  IpAddress::V6 six = kV6Base;
  for (std::size_t i = 0; i < 4; ++i) {
    six[12 + i] = static_cast<std::uint8_t>(offset >> (8 * (3 - i)));
  }
  return {IpAddress::v4(kV4Base + offset), IpAddress::v6(six)};
}

bool is_synthetic(const IpAddress& address) noexcept { return offset_of(address).has_value(); }

std::optional<SyntheticPair> AddressBook::assign(const HostName& host) {
  const auto known = indexes_.find(host);
  if (known != indexes_.end()) return synthetic_pair(known->second);
  if (full()) return std::nullopt;
  const auto index = static_cast<std::uint32_t>(names_.size());
  const auto added = indexes_.emplace(host, index).first;
  names_.push_back(&added->first);
  return synthetic_pair(index);
}

const HostName* AddressBook::find(const IpAddress& address) const noexcept {
  const auto offset = offset_of(address);
  if (!offset || *offset < kSyntheticFirst || *offset - kSyntheticFirst >= names_.size()) {
    return nullptr;
  }
  return names_[*offset - kSyntheticFirst];
}

}  // namespace caisson::egress
