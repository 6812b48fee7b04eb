// egress/wire/synthetic.h — the addresses that exist only inside one sandbox. Each name that our
// resolver answered has one address of 198.18.0.0/15 and one of a ULA /64; a connection to it tells
// us the name, whatever is spoken on it. An address keeps its name as long as the sandbox lives:
// given to another name, it would carry a connection to a host that nobody asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "egress/wire/host_name.h"
#include "egress/wire/ip_address.h"

namespace caisson::egress {

// A wildcard rule lets a guest make up names without end; a real program uses a few dozen.
inline constexpr std::size_t kSyntheticNamesMax = 1024;
// The addresses below are for our own listeners.
inline constexpr std::uint32_t kSyntheticFirst = 0x100;

struct SyntheticPair {
  IpAddress v4;
  IpAddress v6;

  friend bool operator==(const SyntheticPair&, const SyntheticPair&) = default;
};

// The pair of the n-th name: 198.18.1.0 and fd63:6169:7373:6f6e::100 for the first.
[[nodiscard]] SyntheticPair synthetic_pair(std::uint32_t index) noexcept;
// Whether the address lies in one of the two ranges, with a name or without.
[[nodiscard]] bool is_synthetic(const IpAddress& address) noexcept;

class AddressBook {
 public:
  AddressBook() = default;
  AddressBook(AddressBook&&) noexcept = default;
  AddressBook& operator=(AddressBook&&) noexcept = default;
  AddressBook(const AddressBook&) = delete;
  AddressBook& operator=(const AddressBook&) = delete;

  // The pair of this name, the next free one when it is new; nothing when the book is full.
  [[nodiscard]] std::optional<SyntheticPair> assign(const HostName& host);
  // The name that the address stands for, or null.
  [[nodiscard]] const HostName* find(const IpAddress& address) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }
  [[nodiscard]] bool full() const noexcept { return names_.size() >= kSyntheticNamesMax; }

 private:
  std::map<HostName, std::uint32_t> indexes_;
  std::vector<const HostName*> names_;  // keys of indexes_, which stay where they are
};

}  // namespace caisson::egress
