// egress/wire/socks5.h — the server's half of SOCKS5 up to the moment when a target is known
// (RFC 1928, RFC 1929). CONNECT by name is what we serve. An address is read too, so that the
// decision can refuse it with its reason, instead of a client that only sees a closed door.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <variant>

#include "egress/wire/bytes.h"
#include "egress/wire/host_name.h"
#include "egress/wire/ip_address.h"

namespace caisson::egress {

// The largest message: user name and password of 255 bytes each, with their lengths.
inline constexpr std::size_t kSocksMessageBytesMax = 513;

enum class SocksAuth : std::uint8_t { None, UserPassword };

enum class SocksReply : std::uint8_t {
  Succeeded = 0,
  GeneralFailure = 1,
  NotAllowed = 2,
  NetworkUnreachable = 3,
  HostUnreachable = 4,
  ConnectionRefused = 5,
  TtlExpired = 6,
  CommandNotSupported = 7,
  AddressNotSupported = 8,
};

// The whole reply, with an address of zeros: where we connect from is not the guest's business.
[[nodiscard]] Buffer build_socks_reply(SocksReply reply);

enum class SocksFault : std::uint8_t {
  NotSocks5,       // also SOCKS4, and HTTP at the wrong port
  NoMethod,        // none of the client's ways to log in is ours
  BadCredentials,  // malformed, or refused by the caller
  Command,         // BIND and UDP ASSOCIATE
  AddressType,
  Malformed,  // an empty name, a reserved byte that is set
  Port,       // 0
};

[[nodiscard]] std::string_view to_string(SocksFault fault) noexcept;

enum class SocksState : std::uint8_t {
  NeedMore,
  Credentials,  // the caller judges user() and password(), then calls credentials()
  Done,         // target() and port() are there; the caller answers with build_socks_reply()
  Refused,      // send what is to be sent, then close
};

struct SocksStep {
  SocksState state = SocksState::NeedMore;
  std::size_t consumed = 0;  // of the bytes that were given
  Buffer reply;              // to be sent to the client now; often empty
};

class SocksParser {
 public:
  explicit SocksParser(SocksAuth auth) noexcept : auth_(auth) {}

  // Takes the next bytes. It stops behind the message that needs an act of the caller, so early
  // data of the client stays with the caller.
  [[nodiscard]] SocksStep feed(Bytes bytes);
  // The answer to Credentials.
  [[nodiscard]] SocksStep credentials(bool accepted);

  [[nodiscard]] SocksState state() const noexcept { return state_; }
  [[nodiscard]] SocksFault fault() const noexcept { return fault_; }
  [[nodiscard]] const std::string& user() const noexcept { return user_; }
  [[nodiscard]] const std::string& password() const noexcept { return password_; }
  // A host, an address, or why the name was none.
  using Target = std::variant<HostName, IpAddress, HostFault>;
  [[nodiscard]] const Target& target() const noexcept { return target_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
  enum class Stage : std::uint8_t { Greeting, Login, Request };

  [[nodiscard]] SocksStep refuse(SocksFault fault, Buffer reply);
  // How long the message in message_ is as far as its bytes say; never more than the maximum.
  [[nodiscard]] std::expected<std::size_t, SocksFault> wanted() const;
  [[nodiscard]] std::expected<std::size_t, SocksFault> wanted_request() const;
  [[nodiscard]] SocksStep message_end();
  [[nodiscard]] SocksStep read_greeting();
  [[nodiscard]] SocksStep read_login();
  [[nodiscard]] SocksStep read_request();

  SocksAuth auth_;
  SocksState state_ = SocksState::NeedMore;
  Stage stage_ = Stage::Greeting;
  SocksFault fault_ = SocksFault::NotSocks5;
  Buffer message_;
  std::string user_;
  std::string password_;
  Target target_ = HostFault::Empty;
  std::uint16_t port_ = 0;
};

}  // namespace caisson::egress
