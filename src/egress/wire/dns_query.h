// egress/wire/dns_query.h — what a guest asks our resolver, and what we answer. One question of
// class IN, perhaps an EDNS record, nothing else: a query is also a way to carry data out, so what
// is not needed is refused. The answer repeats the question as it was sent, because some clients
// mix upper and lower case as a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "egress/wire/dns_message.h"
#include "egress/wire/ip_address.h"

namespace caisson::egress {

// A name, its type, and EDNS options such as padding.
inline constexpr std::size_t kDnsQueryBytesMax = 1232;
// Kept short: the guest asks again soon after its rules change.
inline constexpr std::uint32_t kDnsAnswerTtlSeconds = 30;

enum class DnsTransport : std::uint8_t { Udp, Tcp };

struct DnsQuery {
  std::uint16_t id = 0;
  std::uint16_t flags = 0;       // as sent
  std::uint16_t type = 0;        // any; only A and AAAA have answers here
  std::string name;              // wire form, lower case
  std::optional<HostName> host;  // nothing when the name is no host's: then nobody has it
  Buffer question;               // as sent
  bool has_edns = false;
  bool dnssec_ok = false;
  std::uint16_t udp_bytes = kDnsUdpBytesMin;  // what the client can take
};

// A query that is not answered: whether the sender hears of it, and how.
struct DnsRefusal {
  DnsFault fault = DnsFault::Short;
  std::optional<DnsRcode> rcode;  // nothing: stay silent
  DnsHeader header;
};

[[nodiscard]] std::expected<DnsQuery, DnsRefusal> parse_dns_query(Bytes message);

// NXDOMAIN for a refused name, no address and NoError for a type that is never there.
struct DnsAnswer {
  DnsRcode rcode = DnsRcode::NoError;
  std::vector<IpAddress> addresses;  // those of the other family are left out
  std::uint32_t ttl_seconds = kDnsAnswerTtlSeconds;
};

// For TCP the length stands in front. Beyond what the client can take: no address, and the bit that
// says to come again by TCP.
[[nodiscard]] Buffer build_dns_answer(const DnsQuery& query, const DnsAnswer& answer,
                                      DnsTransport transport);

// The header alone, or nothing to send.
[[nodiscard]] std::optional<Buffer> build_dns_refusal(const DnsRefusal& refusal,
                                                      DnsTransport transport);

}  // namespace caisson::egress
