// policy/settings/listen_address.h — where a server listens, as text that means one thing:
// "127.0.0.1:8080", "[::1]:8080", "unix:/run/caisson/api.sock". Names are not looked up: what they
// stand for can change, and then a server would be open where nobody meant it to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::policy {

inline constexpr std::size_t kUnixPathBytesMax = 107;  // sockaddr_un, less its NUL

struct ListenAddress {
  enum class Family : std::uint8_t { Ip4, Ip6, Unix };

  Family family = Family::Ip4;
  std::string host = "127.0.0.1";  // canonical; the absolute path of a unix socket
  std::uint16_t port = 8080;       // 0 lets the kernel pick one

  // Only this machine can reach it.
  [[nodiscard]] bool is_local() const noexcept;

  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

[[nodiscard]] std::string to_string(const ListenAddress& address);
[[nodiscard]] Result<ListenAddress> parse_listen_address(std::string_view text);

// "name", "name:port" or an address literal with or without a port, as a Host header may carry it;
// lower case.
[[nodiscard]] Result<std::string> parse_host_header(std::string_view text);

// "https://name[:port]", exactly as a browser sends it in Origin.
[[nodiscard]] Result<std::string> parse_origin(std::string_view text);

}  // namespace caisson::policy
