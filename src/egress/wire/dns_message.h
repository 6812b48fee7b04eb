// egress/wire/dns_message.h — what both directions of DNS share: the header, names, lengths.
// dns_query.h reads what a guest asks and writes our answer; dns_upstream.h writes what we ask and
// reads what the world answers.
//
// A name is kept in its wire form, lower case: lengths in front of labels. In text a label "a.b"
// and the two labels "a", "b" look alike, and a zone could pass one off as the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "egress/wire/bytes.h"
#include "egress/wire/host_name.h"

namespace caisson::egress {

inline constexpr std::size_t kDnsHeaderBytes = 12;
inline constexpr std::size_t kDnsNameBytesMax = 255;
inline constexpr std::size_t kDnsPointersMax = 16;
inline constexpr std::size_t kDnsUdpBytesMin = 512;   // what every client can take
inline constexpr std::size_t kDnsUdpBytesMax = 1232;  // never fragmented on the way
inline constexpr std::size_t kDnsTcpBytesMax = 65535;

enum class DnsType : std::uint16_t { A = 1, Cname = 5, Soa = 6, Txt = 16, Aaaa = 28, Opt = 41 };
inline constexpr std::uint16_t kDnsClassIn = 1;

enum class DnsRcode : std::uint8_t {
  NoError = 0,
  FormErr = 1,
  ServFail = 2,
  NxDomain = 3,
  NotImp = 4,
  Refused = 5,
};

enum class DnsFault : std::uint8_t {
  Short,             // ends before its header says
  TooLong,           // beyond the limit of its transport
  NotQuery,          // an answer where a query was expected
  NotAnswer,         // a query where an answer was expected
  Opcode,            // not a standard query
  QuestionCount,     // not exactly one question
  UnexpectedRecord,  // a record that has no place there
  BadName,           // too long, an unknown kind of label, a pointer that does not point back
  BadClass,          // not IN
  BadRecord,         // an address of the wrong size, a second alias of one name
  Trailing,          // bytes behind the end
  WrongId,           // an answer to another query
  WrongQuestion,     // the same
  TooManyRecords,
  AliasChain,  // a CNAME chain that is too long or a circle
};

[[nodiscard]] std::string_view to_string(DnsFault fault) noexcept;
[[nodiscard]] std::string_view to_string(DnsRcode rcode) noexcept;

struct DnsHeader {
  std::uint16_t id = 0;
  std::uint16_t flags = 0;
  std::uint16_t questions = 0;
  std::uint16_t answers = 0;
  std::uint16_t authorities = 0;
  std::uint16_t additionals = 0;

  [[nodiscard]] bool is_answer() const noexcept { return (flags & 0x8000) != 0; }
  [[nodiscard]] unsigned opcode() const noexcept { return (flags >> 11) & 0xfU; }
  [[nodiscard]] bool truncated() const noexcept { return (flags & 0x0200) != 0; }
  [[nodiscard]] bool recursion_desired() const noexcept { return (flags & 0x0100) != 0; }
  [[nodiscard]] DnsRcode rcode() const noexcept { return static_cast<DnsRcode>(flags & 0xf); }
};

[[nodiscard]] std::optional<DnsHeader> read_dns_header(ByteReader& reader) noexcept;
void put_dns_header(Buffer& out, const DnsHeader& header);

// Reads the name at the reader, follows pointers, and leaves the reader behind it. Each pointer
// must point before the one that led to it, so that no chain of them is a circle.
[[nodiscard]] std::expected<std::string, DnsFault> read_dns_name(Bytes message, ByteReader& reader);

// The canonical host of a wire name, or nothing when no host has this name.
[[nodiscard]] std::optional<HostName> host_of_dns_name(std::string_view wire);
[[nodiscard]] std::string dns_name_of_host(const HostName& host);

// TCP puts the length in front of each message. Nothing: more bytes must come before it is known
// that a whole message is there; else the size of the message that begins at bytes[2].
[[nodiscard]] std::expected<std::optional<std::size_t>, DnsFault> dns_tcp_message(
    Bytes bytes, std::size_t message_bytes_max);
[[nodiscard]] Buffer with_dns_tcp_length(Bytes message);

}  // namespace caisson::egress
