#include "egress/wire/socks5.h"

#include <algorithm>
#include <utility>

#include "base/result.h"

namespace caisson::egress {

namespace {

constexpr std::uint8_t kVersion = 5;
constexpr std::uint8_t kLoginVersion = 1;
constexpr std::uint8_t kMethodNone = 0;
constexpr std::uint8_t kMethodUserPassword = 2;
constexpr std::uint8_t kMethodNoneFits = 0xff;
constexpr std::uint8_t kCommandConnect = 1;
constexpr std::uint8_t kTypeV4 = 1;
constexpr std::uint8_t kTypeName = 3;
constexpr std::uint8_t kTypeV6 = 4;
constexpr std::size_t kRequestHeadBytes = 4;
constexpr std::size_t kPortBytes = 2;

// What the client hears when a request of it is refused.
Buffer reply_to(SocksFault fault) {
  switch (fault) {
    case SocksFault::NotSocks5:
      return {};  // it would not understand
    case SocksFault::NoMethod:
      return {kVersion, kMethodNoneFits};
    case SocksFault::BadCredentials:
      return {kLoginVersion, 1};
    case SocksFault::Command:
      return build_socks_reply(SocksReply::CommandNotSupported);
    case SocksFault::AddressType:
      return build_socks_reply(SocksReply::AddressNotSupported);
    case SocksFault::Malformed:
    case SocksFault::Port:
      return build_socks_reply(SocksReply::GeneralFailure);
  }
  return {};
}

}  // namespace

Buffer build_socks_reply(SocksReply reply) {
  return {kVersion, static_cast<std::uint8_t>(reply), 0, kTypeV4, 0, 0, 0, 0, 0, 0};
}

std::string_view to_string(SocksFault fault) noexcept {
  switch (fault) {
    case SocksFault::NotSocks5:
      return "not SOCKS5";
    case SocksFault::NoMethod:
      return "none of the offered ways to log in is served";
    case SocksFault::BadCredentials:
      return "the user name or password is refused";
    case SocksFault::Command:
      return "only CONNECT is served";
    case SocksFault::AddressType:
      return "an unknown type of address";
    case SocksFault::Malformed:
      return "the SOCKS request is not well formed";
    case SocksFault::Port:
      return "port 0";
  }
  return "not SOCKS5";
}

SocksStep SocksParser::refuse(SocksFault fault, Buffer reply) {
  fault_ = fault;
  state_ = SocksState::Refused;
  message_.clear();
  return {state_, 0, std::move(reply)};
}

std::expected<std::size_t, SocksFault> SocksParser::wanted_request() const {
  // Each byte is judged as it comes: a client of another protocol is not waited for.
  const Bytes have = message_;
  if (have.size() > 1 && have[1] != kCommandConnect) return std::unexpected(SocksFault::Command);
  if (have.size() > 2 && have[2] != 0) return std::unexpected(SocksFault::Malformed);
  if (have.size() < kRequestHeadBytes) return kRequestHeadBytes;
  const std::uint8_t type = have[3];
  if (type == kTypeV4) return kRequestHeadBytes + 4 + kPortBytes;
  if (type == kTypeV6) return kRequestHeadBytes + 16 + kPortBytes;
  if (type != kTypeName) return std::unexpected(SocksFault::AddressType);
  if (have.size() == kRequestHeadBytes) return kRequestHeadBytes + 1;
  if (have[4] == 0) return std::unexpected(SocksFault::Malformed);
  return kRequestHeadBytes + 1 + have[4] + kPortBytes;
}

std::expected<std::size_t, SocksFault> SocksParser::wanted() const {
  const Bytes have = message_;
  if (have.empty()) return 1;
  const std::uint8_t version = stage_ == Stage::Login ? kLoginVersion : kVersion;
  if (have[0] != version) {
    return std::unexpected(stage_ == Stage::Login ? SocksFault::BadCredentials
                                                  : SocksFault::NotSocks5);
  }
  if (stage_ == Stage::Request) return wanted_request();
  if (have.size() == 1) return 2;
  if (have[1] == 0) {
    return std::unexpected(stage_ == Stage::Login ? SocksFault::BadCredentials
                                                  : SocksFault::NoMethod);
  }
  const std::size_t first_end = std::size_t{2} + have[1];
  if (stage_ == Stage::Greeting) return first_end;
  if (have.size() <= first_end) return first_end + 1;
  if (have[first_end] == 0) return std::unexpected(SocksFault::BadCredentials);
  return first_end + 1 + have[first_end];
}

SocksStep SocksParser::read_greeting() {
  const std::uint8_t method = auth_ == SocksAuth::None ? kMethodNone : kMethodUserPassword;
  const Bytes offered = Bytes(message_).subspan(2);
  if (std::ranges::find(offered, method) == offered.end()) {
    return refuse(SocksFault::NoMethod, reply_to(SocksFault::NoMethod));
  }
  stage_ = auth_ == SocksAuth::None ? Stage::Request : Stage::Login;
  return {state_, 0, {kVersion, method}};
}

SocksStep SocksParser::read_login() {
  ByteReader reader(message_, 1);
  const auto user = reader.vector8();
  const auto password = reader.vector8();
  CAISSON_ASSERT(user && password);  // wanted() counted them
  user_ = as_text(*user);
  password_ = as_text(*password);
  state_ = SocksState::Credentials;
  return {state_, 0, {}};
}

SocksStep SocksParser::read_request() {
  ByteReader reader(message_, 3);
  const std::uint8_t type = *reader.u8();
  if (type == kTypeName) {
    auto host = HostName::parse(as_text(*reader.vector8()));
    if (host) {
      target_ = std::move(*host);
    } else {
      target_ = host.error();
    }
  } else {
    target_ = *IpAddress::from_bytes(*reader.take(type == kTypeV4 ? 4 : 16));
  }
  port_ = *reader.u16();
  if (port_ == 0) return refuse(SocksFault::Port, reply_to(SocksFault::Port));
  state_ = SocksState::Done;
  return {state_, 0, {}};
}

SocksStep SocksParser::message_end() {
  SocksStep step;
  switch (stage_) {
    case Stage::Greeting:
      step = read_greeting();
      break;
    case Stage::Login:
      step = read_login();
      break;
    case Stage::Request:
      step = read_request();
      break;
  }
  message_.clear();
  return step;
}

SocksStep SocksParser::feed(Bytes bytes) {
  SocksStep step{state_, 0, {}};
  while (state_ == SocksState::NeedMore) {
    const auto size = wanted();
    if (!size || *size == message_.size()) {
      SocksStep end = size ? message_end() : refuse(size.error(), reply_to(size.error()));
      put_bytes(step.reply, end.reply);
      step.state = state_;
      continue;
    }
    CAISSON_ASSERT(*size <= kSocksMessageBytesMax && *size > message_.size());
    const std::size_t take = std::min(*size - message_.size(), bytes.size() - step.consumed);
    if (take == 0) break;
    put_bytes(message_, bytes.subspan(step.consumed, take));
    step.consumed += take;
  }
  return step;
}

SocksStep SocksParser::credentials(bool accepted) {
  CAISSON_ASSERT(state_ == SocksState::Credentials);
  // They have been judged; nothing keeps a secret longer than it is needed.
  std::ranges::fill(password_, '\0');
  password_.clear();
  if (!accepted) {
    return refuse(SocksFault::BadCredentials, reply_to(SocksFault::BadCredentials));
  }
  state_ = SocksState::NeedMore;
  stage_ = Stage::Request;
  return {state_, 0, {kLoginVersion, 0}};
}

}  // namespace caisson::egress
