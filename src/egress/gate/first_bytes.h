// egress/gate/first_bytes.h — what does a client speak? TLS and HTTP name a host of their own, so
// they must be recognised whenever a server behind us would recognise them; all else is opaque.
//
// Servers are lenient: some skip empty lines before a request, take a tab for a space, a bare LF
// for a line's end, or a request line without a version. What looks like HTTP to any of them is
// called HTTP here and then read by the strict parser, which refuses it. What is undecided stays
// held, however long the client waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "egress/wire/client_hello.h"

namespace caisson::egress {

// A line of text that is longer and has no end is refused.
inline constexpr std::size_t kFirstLineBytesMax = 8192 + 64;

enum class Spoken : std::uint8_t {
  Undecided,
  Tls,
  TlsRefused,
  Http,
  Other,
};

class FirstBytesReader {
 public:
  // All bytes of the client so far; each call shows at least what the last one did.
  Spoken look(std::string_view bytes);
  // The client has ended its side with these.
  Spoken finish(std::string_view bytes);

  [[nodiscard]] const ClientHello& hello() const noexcept { return tls_.hello(); }
  [[nodiscard]] HelloFault fault() const noexcept { return fault_; }

 private:
  HelloParser tls_;
  std::size_t fed_ = 0;
  HelloFault fault_ = HelloFault::Malformed;
};

}  // namespace caisson::egress
