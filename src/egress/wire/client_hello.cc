#include "egress/wire/client_hello.h"

#include <algorithm>
#include <expected>

namespace caisson::egress {

namespace {

constexpr std::uint8_t kRecordHandshake = 22;
constexpr std::uint8_t kMajorVersion = 3;
constexpr std::size_t kRecordHeaderBytes = 5;
constexpr std::size_t kRecordBytesMax = 16384;
constexpr std::uint8_t kMessageClientHello = 1;
constexpr std::size_t kMessageHeaderBytes = 4;
constexpr std::size_t kRandomBytes = 32;
constexpr std::size_t kSessionBytesMax = 32;

constexpr std::uint16_t kExtensionServerName = 0;
constexpr std::uint16_t kExtensionProtocols = 16;
constexpr std::uint16_t kExtensionVersions = 43;
// The hello that hides another, its drafts, and the encrypted server name that came before.
constexpr std::uint16_t kExtensionEchFirst = 0xfe08;
constexpr std::uint16_t kExtensionEchLast = 0xfe0d;
constexpr std::uint16_t kExtensionEsni = 0xffce;

using Outcome = std::expected<void, HelloFault>;

Outcome malformed() { return std::unexpected(HelloFault::Malformed); }

Outcome read_server_name(Bytes body, ClientHello& out) {
  ByteReader reader(body);
  const auto list = reader.vector16();
  if (!list || !reader.done()) return malformed();
  ByteReader names(*list);
  const auto kind = names.u8();
  const auto name = names.vector16();
  if (!kind || !name) return malformed();
  if (*kind != 0 || !names.done()) return std::unexpected(HelloFault::BadServerName);
  auto host = HostName::parse(as_text(*name));
  if (!host) return std::unexpected(HelloFault::BadServerName);
  out.server_name = std::move(*host);
  return {};
}

Outcome read_protocols(Bytes body, ClientHello& out) {
  ByteReader reader(body);
  const auto list = reader.vector16();
  if (!list || list->empty() || !reader.done()) return malformed();
  ByteReader names(*list);
  while (!names.done()) {
    const auto name = names.vector8();
    if (!name || name->empty()) return malformed();
    if (out.protocols.size() == kHelloProtocolsMax) {
      return std::unexpected(HelloFault::TooManyProtocols);
    }
    out.protocols.emplace_back(as_text(*name));
  }
  return {};
}

Outcome read_versions(Bytes body, ClientHello& out) {
  ByteReader reader(body);
  const auto list = reader.vector8();
  if (!list || list->empty() || list->size() % 2 != 0 || !reader.done()) return malformed();
  ByteReader versions(*list);
  while (!versions.done()) out.versions.push_back(*versions.u16());
  return {};
}

Outcome read_extension(std::uint16_t type, Bytes body, ClientHello& out) {
  if (type == kExtensionServerName) return read_server_name(body, out);
  if (type == kExtensionProtocols) return read_protocols(body, out);
  if (type == kExtensionVersions) return read_versions(body, out);
  const bool ech = type >= kExtensionEchFirst && type <= kExtensionEchLast;
  if (ech || type == kExtensionEsni) out.encrypted_hello = true;
  return {};
}

Outcome read_extensions(Bytes bytes, ClientHello& out) {
  ByteReader reader(bytes);
  std::vector<std::uint16_t> seen;
  while (!reader.done()) {
    const auto type = reader.u16();
    const auto body = reader.vector16();
    if (!type || !body) return malformed();
    if (seen.size() == kHelloExtensionsMax) {
      return std::unexpected(HelloFault::TooManyExtensions);
    }
    if (std::ranges::find(seen, *type) != seen.end()) {
      return std::unexpected(HelloFault::TwiceExtension);
    }
    seen.push_back(*type);
    const Outcome read = read_extension(*type, *body, out);
    if (!read) return read;
  }
  return {};
}

Outcome read_hello(Bytes body, ClientHello& out) {
  ByteReader reader(body);
  const auto version = reader.u16();
  const auto random = reader.take(kRandomBytes);
  const auto session = reader.vector8();
  const auto suites = reader.vector16();
  const auto compressions = reader.vector8();
  if (!version || !random || !session || !suites || !compressions) return malformed();
  if (session->size() > kSessionBytesMax || suites->empty() || suites->size() % 2 != 0 ||
      compressions->empty()) {
    return malformed();
  }
  out.legacy_version = *version;
  if (reader.done()) return {};  // a client older than extensions names no server
  const auto extensions = reader.vector16();
  if (!extensions || !reader.done()) return malformed();
  return read_extensions(*extensions, out);
}

}  // namespace

std::string_view to_string(HelloFault fault) noexcept {
  switch (fault) {
    case HelloFault::TooLong:
      return "the ClientHello is longer than 64 KiB";
    case HelloFault::BadRecord:
      return "a TLS record that is empty, too long or of another kind";
    case HelloFault::NotClientHello:
      return "the first TLS message is not a ClientHello";
    case HelloFault::Malformed:
      return "the ClientHello is not well formed";
    case HelloFault::Trailing:
      return "bytes behind the ClientHello in its record";
    case HelloFault::TwiceExtension:
      return "the ClientHello has one extension twice";
    case HelloFault::TooManyExtensions:
      return "the ClientHello has too many extensions";
    case HelloFault::TooManyProtocols:
      return "the ClientHello names too many protocols";
    case HelloFault::BadServerName:
      return "the ClientHello does not name exactly one host";
  }
  return "the ClientHello is not well formed";
}

HelloState HelloParser::refuse(HelloFault fault) noexcept {
  fault_ = fault;
  handshake_.clear();
  return state_ = HelloState::Refused;
}

HelloState HelloParser::header_byte(std::uint8_t byte) {
  const bool first_record = handshake_.empty();
  const std::size_t place = header_seen_++;
  if ((place == 0 && byte != kRecordHandshake) || (place == 1 && byte != kMajorVersion)) {
    if (first_record) return state_ = HelloState::NotTls;
    return refuse(HelloFault::BadRecord);
  }
  if (place == 3) record_size_ = std::size_t{byte} << 8;
  if (place == 4) {
    record_size_ |= byte;
    if (record_size_ == 0 || record_size_ > kRecordBytesMax) return refuse(HelloFault::BadRecord);
    record_left_ = record_size_;
  }
  return state_;
}

HelloState HelloParser::record_end() {
  header_seen_ = 0;
  if (handshake_.front() != kMessageClientHello) return refuse(HelloFault::NotClientHello);
  if (handshake_.size() < kMessageHeaderBytes) return state_;
  const std::size_t size =
      (std::size_t{handshake_[1]} << 16) | (std::size_t{handshake_[2]} << 8) | handshake_[3];
  if (size > kHelloBytesMax) return refuse(HelloFault::TooLong);
  const std::size_t have = handshake_.size() - kMessageHeaderBytes;
  if (have < size) return state_;
  if (have > size) return refuse(HelloFault::Trailing);
  const Outcome read = read_hello(Bytes(handshake_).subspan(kMessageHeaderBytes), hello_);
  if (!read) return refuse(read.error());
  handshake_.clear();
  return state_ = HelloState::Done;
}

HelloState HelloParser::feed(Bytes bytes) {
  while (!bytes.empty() && state_ == HelloState::NeedMore) {
    if (consumed_ == kHelloBytesMax) return refuse(HelloFault::TooLong);
    if (header_seen_ < kRecordHeaderBytes) {
      ++consumed_;
      (void)header_byte(bytes.front());
      bytes = bytes.subspan(1);
      continue;
    }
    const std::size_t size = std::min({bytes.size(), record_left_, kHelloBytesMax - consumed_});
    put_bytes(handshake_, bytes.first(size));
    bytes = bytes.subspan(size);
    consumed_ += size;
    record_left_ -= size;
    if (record_left_ == 0) (void)record_end();
  }
  return state_;
}

}  // namespace caisson::egress
