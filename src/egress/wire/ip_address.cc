#include "egress/wire/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>

namespace caisson::egress {

std::optional<IpAddress> IpAddress::from_bytes(Bytes bytes) noexcept {
  if (bytes.size() == 4) {
    V4 four{};
    std::ranges::copy(bytes, four.begin());
    return v4(four);
  }
  if (bytes.size() == 16) {
    V6 sixteen{};
    std::ranges::copy(bytes, sixteen.begin());
    return v6(sixteen);
  }
  return std::nullopt;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  // inet_pton() stops at a NUL: what stands behind one would pass unseen.
  if (text.size() >= INET6_ADDRSTRLEN || text.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string terminated(text);
  V4 four{};
  if (inet_pton(AF_INET, terminated.c_str(), four.data()) == 1) return v4(four);
  V6 sixteen{};
  if (inet_pton(AF_INET6, terminated.c_str(), sixteen.data()) == 1) return v6(sixteen);
  return std::nullopt;
}

std::string to_string(const IpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = address.family() == IpFamily::V4 ? AF_INET : AF_INET6;
  if (inet_ntop(family, address.bytes().data(), text.data(), text.size()) == nullptr) return {};
  return text.data();
}

}  // namespace caisson::egress
