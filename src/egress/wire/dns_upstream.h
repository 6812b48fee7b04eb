// egress/wire/dns_upstream.h — what our resolver asks for an allowed name, and how it reads what
// comes back. The answer is written by the owner of a zone, or by whoever guesses our id: it counts
// only with our id and our question, and only the addresses at the end of the chain of aliases
// that begins at our name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "egress/wire/dns_message.h"
#include "egress/wire/ip_address.h"

namespace caisson::egress {

inline constexpr std::size_t kDnsRecordsMax = 128;
inline constexpr std::size_t kDnsAddressesMax = 64;
inline constexpr std::size_t kDnsAliasesMax = 16;
inline constexpr std::uint32_t kDnsTtlSecondsMax = 3600;

struct UpstreamAnswer {
  DnsRcode rcode = DnsRcode::NoError;
  bool truncated = false;            // ask again by TCP; nothing else counts
  std::vector<IpAddress> addresses;  // of the family that was asked for
  std::uint32_t ttl_seconds = 0;     // the shortest of what was used
  std::size_t aliases = 0;           // how many led to the addresses
};

// `type` is A or AAAA. The id is the caller's random number.
[[nodiscard]] Buffer build_upstream_query(std::uint16_t id, const HostName& host, DnsType type);

// A fault means that these bytes are no answer to our query: wait on, the right one may follow.
[[nodiscard]] std::expected<UpstreamAnswer, DnsFault> parse_upstream_answer(Bytes message,
                                                                            std::uint16_t id,
                                                                            const HostName& host,
                                                                            DnsType type);

}  // namespace caisson::egress
