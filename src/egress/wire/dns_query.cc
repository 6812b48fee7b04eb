#include "egress/wire/dns_query.h"

#include <algorithm>

namespace caisson::egress {

namespace {

constexpr std::uint16_t kFlagAnswer = 0x8000;
constexpr std::uint16_t kFlagTruncated = 0x0200;
constexpr std::uint16_t kFlagRecursionDesired = 0x0100;
constexpr std::uint16_t kFlagRecursionAvailable = 0x0080;
constexpr std::uint16_t kFlagCheckingDisabled = 0x0010;
constexpr std::uint16_t kOpcodeMask = 0x7800;
constexpr std::uint32_t kEdnsDnssecOk = 0x8000;
constexpr std::uint16_t kPointerToQuestion = 0xc000 | kDnsHeaderBytes;

std::uint16_t answer_flags(std::uint16_t asked, DnsRcode rcode) {
  const unsigned kept =
      asked & (kOpcodeMask | unsigned{kFlagRecursionDesired} | kFlagCheckingDisabled);
  return static_cast<std::uint16_t>(kept | kFlagAnswer | kFlagRecursionAvailable |
                                    static_cast<unsigned>(rcode));
}

std::expected<void, DnsFault> read_edns(ByteReader& reader, DnsQuery& query) {
  const auto root = reader.u8();
  const auto type = reader.u16();
  const auto udp_bytes = reader.u16();
  const auto extended = reader.u32();
  const auto options = reader.vector16();
  if (!root || !type || !udp_bytes || !extended || !options) {
    return std::unexpected(DnsFault::Short);
  }
  const bool is_opt = *root == 0 && *type == static_cast<std::uint16_t>(DnsType::Opt);
  if (!is_opt) return std::unexpected(DnsFault::UnexpectedRecord);
  query.has_edns = true;
  query.dnssec_ok = (*extended & kEdnsDnssecOk) != 0;
  query.udp_bytes = static_cast<std::uint16_t>(
      std::clamp<std::size_t>(*udp_bytes, kDnsUdpBytesMin, kDnsUdpBytesMax));
  return {};
}

// What stands behind the header.
std::expected<void, DnsFault> read_body(Bytes message, const DnsHeader& header, ByteReader& reader,
                                        DnsQuery& query) {
  if (header.questions != 1) return std::unexpected(DnsFault::QuestionCount);
  if (header.answers != 0 || header.authorities != 0 || header.additionals > 1) {
    return std::unexpected(DnsFault::UnexpectedRecord);
  }
  const std::size_t start = reader.at();
  auto name = read_dns_name(message, reader);
  if (!name) return std::unexpected(name.error());
  query.name = std::move(*name);
  const auto type = reader.u16();
  const auto kind = reader.u16();
  if (!type || !kind) return std::unexpected(DnsFault::Short);
  query.type = *type;
  const Bytes question = message.subspan(start, reader.at() - start);
  query.question.assign(question.begin(), question.end());
  if (*kind != kDnsClassIn) return std::unexpected(DnsFault::BadClass);
  if (header.additionals == 1) {
    const auto edns = read_edns(reader, query);
    if (!edns) return edns;
  }
  if (!reader.done()) return std::unexpected(DnsFault::Trailing);
  query.host = host_of_dns_name(query.name);
  return {};
}

void put_edns(Buffer& out, const DnsQuery& query) {
  out.push_back(0);
  put_u16(out, static_cast<std::uint16_t>(DnsType::Opt));
  put_u16(out, kDnsUdpBytesMax);
  put_u32(out, query.dnssec_ok ? kEdnsDnssecOk : 0);
  put_u16(out, 0);
}

constexpr std::size_t kEdnsBytes = 11;

std::optional<IpFamily> family_of(std::uint16_t type) {
  if (type == static_cast<std::uint16_t>(DnsType::A)) return IpFamily::V4;
  if (type == static_cast<std::uint16_t>(DnsType::Aaaa)) return IpFamily::V6;
  return std::nullopt;
}

Buffer framed(Buffer message, DnsTransport transport) {
  if (transport == DnsTransport::Udp) return message;
  return with_dns_tcp_length(message);
}

}  // namespace

std::expected<DnsQuery, DnsRefusal> parse_dns_query(Bytes message) {
  ByteReader reader(message);
  const auto header = read_dns_header(reader);
  if (!header) return std::unexpected(DnsRefusal{DnsFault::Short, std::nullopt, {}});
  // An answer to an answer could make two servers talk for ever.
  if (header->is_answer()) {
    return std::unexpected(DnsRefusal{DnsFault::NotQuery, std::nullopt, *header});
  }
  if (header->opcode() != 0) {
    return std::unexpected(DnsRefusal{DnsFault::Opcode, DnsRcode::NotImp, *header});
  }
  if (message.size() > kDnsQueryBytesMax) {
    return std::unexpected(DnsRefusal{DnsFault::TooLong, DnsRcode::FormErr, *header});
  }
  DnsQuery query;
  query.id = header->id;
  query.flags = header->flags;
  const auto body = header->truncated()
                        ? std::expected<void, DnsFault>(std::unexpected(DnsFault::Short))
                        : read_body(message, *header, reader, query);
  if (!body) {
    const bool other_class = body.error() == DnsFault::BadClass;
    return std::unexpected(
        DnsRefusal{body.error(), other_class ? DnsRcode::Refused : DnsRcode::FormErr, *header});
  }
  return query;
}

Buffer build_dns_answer(const DnsQuery& query, const DnsAnswer& answer, DnsTransport transport) {
  DnsHeader header;
  header.id = query.id;
  header.flags = answer_flags(query.flags, answer.rcode);
  header.questions = 1;
  header.additionals = query.has_edns ? 1 : 0;
  const auto family = answer.rcode == DnsRcode::NoError ? family_of(query.type) : std::nullopt;
  Buffer records;
  std::size_t count = 0;
  for (const IpAddress& address : answer.addresses) {
    if (address.family() != family) continue;
    put_u16(records, kPointerToQuestion);
    put_u16(records, query.type);
    put_u16(records, kDnsClassIn);
    put_u32(records, answer.ttl_seconds);
    put_u16(records, static_cast<std::uint16_t>(address.size()));
    put_bytes(records, address.bytes());
    ++count;
  }
  const std::size_t limit =
      transport == DnsTransport::Tcp ? kDnsTcpBytesMax : std::size_t{query.udp_bytes};
  const std::size_t whole =
      kDnsHeaderBytes + query.question.size() + records.size() + (query.has_edns ? kEdnsBytes : 0);
  if (whole > limit) {
    header.flags |= kFlagTruncated;
    records.clear();
    count = 0;
  }
  header.answers = static_cast<std::uint16_t>(count);
  Buffer out;
  out.reserve(std::min(whole, limit));
  put_dns_header(out, header);
  put_bytes(out, query.question);
  put_bytes(out, records);
  if (query.has_edns) put_edns(out, query);
  return framed(std::move(out), transport);
}

std::optional<Buffer> build_dns_refusal(const DnsRefusal& refusal, DnsTransport transport) {
  if (!refusal.rcode) return std::nullopt;
  DnsHeader header;
  header.id = refusal.header.id;
  header.flags = answer_flags(refusal.header.flags, *refusal.rcode);
  Buffer out;
  put_dns_header(out, header);
  return framed(std::move(out), transport);
}

}  // namespace caisson::egress
