// egress/wire/host_name.h — a host that was judged, as a type: who holds a HostName holds a
// canonical name, and no other function has to ask again. What a host name *is* says
// policy::canonical_host() alone; here a refusal gets a type, for the audit and for the answer.
#pragma once

#include <compare>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace caisson::egress {

enum class HostFault : std::uint8_t {
  Empty,
  TooLong,         // the name beyond 253 bytes, or a label beyond 63
  NulByte,         // where a C string would end and our check would not
  BadByte,         // a space, a control character, '%', '\', '/' and every other byte
  NotAscii,        // also the dots and digits of other alphabets
  Userinfo,        // '@'
  Fragment,        // '#'
  Wildcard,        // '*' belongs in rules
  Port,            // a port where only a host may stand
  TrailingDot,     // the same host to a resolver, another one to a certificate
  EmptyLabel,      // ".a", "a..b"
  Hyphen,          // a label begins or ends with '-'
  AddressLiteral,  // an IP address, in any spelling that some resolver accepts
};

[[nodiscard]] std::string_view to_string(HostFault fault) noexcept;

class HostName {
 public:
  // Lower case, at most 253 bytes, whole labels, "xn--" for what is not ASCII.
  [[nodiscard]] static std::expected<HostName, HostFault> parse(std::string_view text);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  friend bool operator==(const HostName&, const HostName&) = default;
  friend auto operator<=>(const HostName&, const HostName&) = default;

 private:
  explicit HostName(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

}  // namespace caisson::egress
