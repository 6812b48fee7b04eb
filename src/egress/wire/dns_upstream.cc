#include "egress/wire/dns_upstream.h"

#include <algorithm>
#include <optional>

namespace caisson::egress {

namespace {

struct Alias {
  std::string from;
  std::string to;
  std::uint32_t ttl_seconds;
};

struct AddressRecord {
  std::string owner;
  IpAddress address;
  std::uint32_t ttl_seconds;
};

struct Records {
  std::vector<Alias> aliases;
  std::vector<AddressRecord> addresses;
};

std::expected<void, DnsFault> read_alias(Bytes message, std::size_t data_at, std::size_t data_size,
                                         std::string owner, std::uint32_t ttl, Records& out) {
  ByteReader reader(message, data_at);
  auto target = read_dns_name(message, reader);
  if (!target) return std::unexpected(target.error());
  if (reader.at() != data_at + data_size) return std::unexpected(DnsFault::BadRecord);
  const auto same_owner = [&](const Alias& alias) { return alias.from == owner; };
  if (std::ranges::any_of(out.aliases, same_owner)) return std::unexpected(DnsFault::BadRecord);
  out.aliases.push_back({std::move(owner), std::move(*target), ttl});
  return {};
}

std::expected<void, DnsFault> read_record(Bytes message, ByteReader& reader, DnsType type,
                                          Records& out) {
  auto owner = read_dns_name(message, reader);
  if (!owner) return std::unexpected(owner.error());
  const auto kind = reader.u16();
  const auto space = reader.u16();
  const auto ttl = reader.u32();
  const auto size = reader.u16();
  if (!kind || !space || !ttl || !size) return std::unexpected(DnsFault::Short);
  const std::size_t data_at = reader.at();
  const auto data = reader.take(*size);
  if (!data) return std::unexpected(DnsFault::Short);
  if (*space != kDnsClassIn) return std::unexpected(DnsFault::BadClass);
  // The highest bit makes no sense as a time, and a negative one means "do not keep".
  const std::uint32_t seconds = *ttl > 0x7fffffff ? 0 : std::min(*ttl, kDnsTtlSecondsMax);
  if (*kind == static_cast<std::uint16_t>(DnsType::Cname)) {
    return read_alias(message, data_at, *size, std::move(*owner), seconds, out);
  }
  if (*kind != static_cast<std::uint16_t>(type)) return {};
  const auto address = IpAddress::from_bytes(*data);
  const IpFamily family = type == DnsType::A ? IpFamily::V4 : IpFamily::V6;
  if (!address || address->family() != family) return std::unexpected(DnsFault::BadRecord);
  out.addresses.push_back({std::move(*owner), *address, seconds});
  return {};
}

// Walks from our name to the end of the chain and takes the addresses that stand there.
std::expected<void, DnsFault> follow(const std::string& name, const Records& records,
                                     UpstreamAnswer& answer) {
  std::uint32_t ttl = kDnsTtlSecondsMax;
  std::string_view current = name;
  for (;;) {
    const auto alias = std::ranges::find(records.aliases, current, &Alias::from);
    if (alias == records.aliases.end()) break;
    if (++answer.aliases > kDnsAliasesMax) return std::unexpected(DnsFault::AliasChain);
    ttl = std::min(ttl, alias->ttl_seconds);
    current = alias->to;
  }
  for (const AddressRecord& record : records.addresses) {
    if (record.owner != current) continue;
    if (answer.addresses.size() == kDnsAddressesMax) {
      return std::unexpected(DnsFault::TooManyRecords);
    }
    answer.addresses.push_back(record.address);
    ttl = std::min(ttl, record.ttl_seconds);
  }
  answer.ttl_seconds = answer.addresses.empty() ? 0 : ttl;
  return {};
}

std::expected<void, DnsFault> check_question(Bytes message, ByteReader& reader,
                                             const std::string& name, DnsType type) {
  const auto asked = read_dns_name(message, reader);
  if (!asked) return std::unexpected(asked.error());
  const auto kind = reader.u16();
  const auto space = reader.u16();
  if (!kind || !space) return std::unexpected(DnsFault::Short);
  const bool same =
      *asked == name && *kind == static_cast<std::uint16_t>(type) && *space == kDnsClassIn;
  if (!same) return std::unexpected(DnsFault::WrongQuestion);
  return {};
}

}  // namespace

Buffer build_upstream_query(std::uint16_t id, const HostName& host, DnsType type) {
  constexpr std::uint16_t kRecursionDesired = 0x0100;
  Buffer out;
  put_dns_header(out, {id, kRecursionDesired, 1, 0, 0, 1});
  put_bytes(out, as_bytes(dns_name_of_host(host)));
  put_u16(out, static_cast<std::uint16_t>(type));
  put_u16(out, kDnsClassIn);
  out.push_back(0);
  put_u16(out, static_cast<std::uint16_t>(DnsType::Opt));
  put_u16(out, kDnsUdpBytesMax);
  put_u32(out, 0);
  put_u16(out, 0);
  return out;
}

std::expected<UpstreamAnswer, DnsFault> parse_upstream_answer(Bytes message, std::uint16_t id,
                                                              const HostName& host, DnsType type) {
  if (message.size() > kDnsTcpBytesMax) return std::unexpected(DnsFault::TooLong);
  ByteReader reader(message);
  const auto header = read_dns_header(reader);
  if (!header) return std::unexpected(DnsFault::Short);
  if (!header->is_answer()) return std::unexpected(DnsFault::NotAnswer);
  if (header->id != id) return std::unexpected(DnsFault::WrongId);
  if (header->opcode() != 0) return std::unexpected(DnsFault::Opcode);
  if (header->questions != 1) return std::unexpected(DnsFault::QuestionCount);
  const std::string name = dns_name_of_host(host);
  const auto question = check_question(message, reader, name, type);
  if (!question) return std::unexpected(question.error());

  UpstreamAnswer answer;
  answer.rcode = header->rcode();
  answer.truncated = header->truncated();
  if (answer.truncated || answer.rcode != DnsRcode::NoError) return answer;
  if (header->answers > kDnsRecordsMax) return std::unexpected(DnsFault::TooManyRecords);
  Records records;
  for (std::size_t i = 0; i < header->answers; ++i) {
    const auto record = read_record(message, reader, type, records);
    if (!record) return std::unexpected(record.error());
  }
  const auto followed = follow(name, records, answer);
  if (!followed) return std::unexpected(followed.error());
  return answer;
}

}  // namespace caisson::egress
