// image/url.h — an http or https URL from a registry's mouth, read in one way or refused: no user
// in it, no fragment, a canonical host, visible ASCII only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::image {

inline constexpr std::size_t kUrlBytesMax = 8192;

struct Url {
  bool tls = true;
  std::string host;  // canonical name, or an address without brackets
  std::uint16_t port = 443;
  std::string target = "/";  // path and query

  [[nodiscard]] static Result<Url> parse(std::string_view text);
  // Of a Location field: whole, without scheme, or an absolute path.
  [[nodiscard]] Result<Url> follow(std::string_view location) const;
  // "host" or "host:port" as a Host field has it.
  [[nodiscard]] std::string authority() const;
  [[nodiscard]] std::string str() const;
  // Scheme, host and port: credentials stay within one of these.
  [[nodiscard]] bool same_origin(const Url& other) const noexcept;
  // By its name alone: localhost, 127.0.0.0/8, ::1.
  [[nodiscard]] bool names_loopback() const;
};

// What may stand in a query value, everything else as %XX.
[[nodiscard]] std::string percent_encode(std::string_view text);

}  // namespace caisson::image
