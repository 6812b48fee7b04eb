// egress/wire/proxy_target.h — where a request of a proxy client wants to go, read once.
// CONNECT names "host:port"; a forwarded request names "http://host[:port]/path"; a request on a
// connection whose host is known already names "/path". Everything else is refused, and so is a
// request whose Host field names another host than its target: the server behind a shared address
// would obey the field, while we had judged the target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "egress/wire/host_name.h"

namespace caisson::egress {

inline constexpr std::size_t kTargetBytesMax = 8192;
inline constexpr std::uint16_t kHttpPort = 80;
inline constexpr std::uint16_t kHttpsPort = 443;

enum class TargetFault : std::uint8_t {
  Empty,
  TooLong,
  BadByte,   // a space, a control character, '\', a quote, or not ASCII
  Fragment,  // never part of a request
  Userinfo,
  Form,    // not the form that this kind of request has
  Scheme,  // only http:// is forwarded; https goes by CONNECT
  Host,    // see host_fault
  PortMissing,
  PortBad,
  HostFieldMissing,
  HostFieldTwice,
  HostFieldBad,    // see host_fault, or its port is none
  HostFieldOther,  // another host or port than the target
};

struct TargetRefusal {
  TargetFault fault = TargetFault::Form;
  std::optional<HostFault> host_fault;

  friend bool operator==(const TargetRefusal&, const TargetRefusal&) = default;
};

[[nodiscard]] std::string_view to_string(TargetFault fault) noexcept;
[[nodiscard]] std::string to_string(const TargetRefusal& refusal);

struct ProxyTarget {
  HostName host;
  std::uint16_t port = kHttpPort;
  std::string path;  // with the query; empty for CONNECT

  friend bool operator==(const ProxyTarget&, const ProxyTarget&) = default;
};

using TargetResult = std::expected<ProxyTarget, TargetRefusal>;

// "host:port". One dialect lets the port be left out and means 443.
enum class PortRule : std::uint8_t { Required, Default443 };
[[nodiscard]] TargetResult parse_connect_target(std::string_view text,
                                                PortRule rule = PortRule::Required);

// "http://host[:port][/path][?query]".
[[nodiscard]] TargetResult parse_absolute_target(std::string_view text);

// "/path[?query]" on a connection that is to `host` and `port`.
[[nodiscard]] TargetResult parse_origin_target(std::string_view text, const HostName& host,
                                               std::uint16_t port);

// CONNECT takes the first form, every other method the second.
[[nodiscard]] TargetResult parse_proxy_target(std::string_view method, std::string_view text,
                                              PortRule rule = PortRule::Required);

// HTTP/1.0 and many clients' CONNECT come without the field. There at most once, it always agrees.
enum class HostFieldRule : std::uint8_t { Required, Optional };

// `values` are those of every Host field of the request. A port that is not written is the default
// of the scheme; for CONNECT it is the target's.
[[nodiscard]] std::expected<void, TargetRefusal> check_host_field(
    const ProxyTarget& target, std::span<const std::string_view> values, HostFieldRule rule,
    std::optional<std::uint16_t> default_port);

// No dot segments, no doubled slashes, no escapes that stand for a dot, slash, backslash or NUL, no
// broken ones: a path that every server reads alike, so that a rule for a prefix means something.
[[nodiscard]] bool is_plain_path(std::string_view path) noexcept;

}  // namespace caisson::egress
