// egress/wire/client_hello.h — what a TLS client says before anything is encrypted: the name it
// wants, whether it hides another one behind it, and what it would speak. The hello may come in any
// pieces and over many records; it is judged whole or not at all, because a reader that looks at
// the first record alone can be shown an empty one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "egress/wire/bytes.h"
#include "egress/wire/host_name.h"

namespace caisson::egress {

inline constexpr std::size_t kHelloBytesMax = 65536;  // on the wire, headers of records included
inline constexpr std::size_t kHelloExtensionsMax = 128;
inline constexpr std::size_t kHelloProtocolsMax = 32;

enum class HelloFault : std::uint8_t {
  TooLong,         // beyond kHelloBytesMax
  BadRecord,       // an empty or oversized record, or one of another kind in between
  NotClientHello,  // another handshake message comes first
  Malformed,       // a length that does not fit
  Trailing,        // handshake bytes behind the hello, before the server could answer
  TwiceExtension,  // two readers would choose differently
  TooManyExtensions,
  TooManyProtocols,
  BadServerName,  // not exactly one name, or one that is no host
};

[[nodiscard]] std::string_view to_string(HelloFault fault) noexcept;

struct ClientHello {
  std::optional<HostName> server_name;
  bool encrypted_hello = false;         // ECH or its ancestor: a second name that we cannot read
  std::vector<std::string> protocols;   // ALPN, as bytes
  std::vector<std::uint16_t> versions;  // supported_versions; empty before TLS 1.3
  std::uint16_t legacy_version = 0;
};

enum class HelloState : std::uint8_t { NeedMore, Done, NotTls, Refused };

class HelloParser {
 public:
  // Shows the next bytes of the connection. Once the state is not NeedMore, more bytes change
  // nothing. The caller keeps the bytes: they are sent on as they came.
  HelloState feed(Bytes bytes);

  [[nodiscard]] HelloState state() const noexcept { return state_; }
  // Done only.
  [[nodiscard]] const ClientHello& hello() const noexcept { return hello_; }
  // Refused only.
  [[nodiscard]] HelloFault fault() const noexcept { return fault_; }
  // How many bytes were looked at: up to the end of the record that ends the hello.
  [[nodiscard]] std::size_t consumed() const noexcept { return consumed_; }

 private:
  HelloState refuse(HelloFault fault) noexcept;
  // One byte of a record's header; the state says whether to go on.
  HelloState header_byte(std::uint8_t byte);
  HelloState record_end();

  HelloState state_ = HelloState::NeedMore;
  HelloFault fault_ = HelloFault::Malformed;
  std::size_t consumed_ = 0;
  std::size_t header_seen_ = 0;  // of the record's five bytes
  std::size_t record_size_ = 0;
  std::size_t record_left_ = 0;
  Buffer handshake_;  // bounded with consumed_
  ClientHello hello_;
};

}  // namespace caisson::egress
