// Any bytes as a guest's query or an upstream's answer: refused, or a value whose parts hold what
// the resolver relies on. The first byte says in which direction.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "egress/wire/dns_query.h"
#include "egress/wire/dns_upstream.h"

namespace {

using namespace caisson::egress;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_query(Bytes message) {
  const auto query = parse_dns_query(message);
  if (!query) {
    const auto reply = build_dns_refusal(query.error(), DnsTransport::Tcp);
    require(!reply || reply->size() == 2 + kDnsHeaderBytes);
    return;
  }
  require(query->name.size() <= kDnsNameBytesMax);
  require(query->udp_bytes >= kDnsUdpBytesMin && query->udp_bytes <= kDnsUdpBytesMax);
  const std::vector<IpAddress> addresses(50, IpAddress::v4(0x01020304));
  const DnsAnswer answer{DnsRcode::NoError, addresses, 1};
  const Buffer udp = build_dns_answer(*query, answer, DnsTransport::Udp);
  require(udp.size() <= query->udp_bytes);
  const Buffer tcp = build_dns_answer(*query, answer, DnsTransport::Tcp);
  require(dns_tcp_message(tcp, kDnsTcpBytesMax).value() == tcp.size() - 2);
  if (!query->host || query->type != 1) return;
  require(dns_name_of_host(*query->host) == query->name);
  // What we say is what our own reader hears.
  const auto heard =
      parse_upstream_answer(Bytes(tcp).subspan(2), query->id, *query->host, DnsType::A);
  require(heard && heard->addresses.size() == addresses.size());
}

void check_answer(Bytes message) {
  if (message.size() < 2) return;
  const auto id = static_cast<std::uint16_t>((unsigned{message[0]} << 8) | message[1]);
  const HostName host = *HostName::parse("a.example");
  for (const DnsType type : {DnsType::A, DnsType::Aaaa}) {
    const auto answer = parse_upstream_answer(message, id, host, type);
    if (!answer) continue;
    require(answer->addresses.size() <= kDnsAddressesMax);
    require(answer->aliases <= kDnsAliasesMax);
    require(answer->ttl_seconds <= kDnsTtlSecondsMax);
    for (const IpAddress& address : answer->addresses) {
      require((address.family() == IpFamily::V4) == (type == DnsType::A));
    }
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes message(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    check_query(message);
  } else {
    check_answer(message);
  }
  (void)dns_tcp_message(message, kDnsQueryBytesMax);
  return 0;
}
