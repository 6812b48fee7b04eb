#include "egress/wire/dns_message.h"

#include "base/result.h"
#include "policy/wording.h"

namespace caisson::egress {

std::string_view to_string(DnsFault fault) noexcept {
  switch (fault) {
    case DnsFault::Short:
      return "the message ends before it should";
    case DnsFault::TooLong:
      return "the message is too long";
    case DnsFault::NotQuery:
      return "an answer, not a query";
    case DnsFault::NotAnswer:
      return "a query, not an answer";
    case DnsFault::Opcode:
      return "not a standard query";
    case DnsFault::QuestionCount:
      return "not exactly one question";
    case DnsFault::UnexpectedRecord:
      return "a record that has no place there";
    case DnsFault::BadName:
      return "a name that is too long or not well formed";
    case DnsFault::BadClass:
      return "a class that is not IN";
    case DnsFault::BadRecord:
      return "a record that is not well formed";
    case DnsFault::Trailing:
      return "bytes behind the end of the message";
    case DnsFault::WrongId:
      return "an answer to another query";
    case DnsFault::WrongQuestion:
      return "an answer to another question";
    case DnsFault::TooManyRecords:
      return "too many records";
    case DnsFault::AliasChain:
      return "a chain of aliases that is too long or a circle";
  }
  return "not a DNS message";
}

std::string_view to_string(DnsRcode rcode) noexcept {
  switch (rcode) {
    case DnsRcode::NoError:
      return "NOERROR";
    case DnsRcode::FormErr:
      return "FORMERR";
    case DnsRcode::ServFail:
      return "SERVFAIL";
    case DnsRcode::NxDomain:
      return "NXDOMAIN";
    case DnsRcode::NotImp:
      return "NOTIMP";
    case DnsRcode::Refused:
      return "REFUSED";
  }
  return "another error";
}

std::optional<DnsHeader> read_dns_header(ByteReader& reader) noexcept {
  const auto bytes = reader.take(kDnsHeaderBytes);
  if (!bytes) return std::nullopt;
  ByteReader fields(*bytes);
  DnsHeader header;
  for (std::uint16_t* field : {&header.id, &header.flags, &header.questions, &header.answers,
                               &header.authorities, &header.additionals}) {
    *field = *fields.u16();
  }
  return header;
}

void put_dns_header(Buffer& out, const DnsHeader& header) {
  for (const std::uint16_t field : {header.id, header.flags, header.questions, header.answers,
                                    header.authorities, header.additionals}) {
    put_u16(out, field);
  }
}

std::expected<std::string, DnsFault> read_dns_name(Bytes message, ByteReader& reader) {
  std::string name;
  ByteReader at = reader;
  std::size_t before = reader.at();  // a pointer must lead further back than this
  std::size_t pointers = 0;
  for (;;) {
    const std::size_t here = at.at();
    const auto size = at.u8();
    if (!size) return std::unexpected(DnsFault::Short);
    if ((*size & 0xc0) == 0xc0) {
      const auto low = at.u8();
      if (!low) return std::unexpected(DnsFault::Short);
      const std::size_t target = ((*size & 0x3fU) << 8) | *low;
      if (target >= before || target < kDnsHeaderBytes || ++pointers > kDnsPointersMax) {
        return std::unexpected(DnsFault::BadName);
      }
      if (pointers == 1) reader = at;
      before = target;
      at = ByteReader(message, target);
      continue;
    }
    if ((*size & 0xc0) != 0) return std::unexpected(DnsFault::BadName);
    const auto label = at.take(*size);
    if (!label) return std::unexpected(DnsFault::Short);
    if (name.size() + 1 + label->size() > kDnsNameBytesMax) {
      return std::unexpected(DnsFault::BadName);
    }
    CAISSON_ASSERT(at.at() > here);
    name.push_back(static_cast<char>(*size));
    if (*size == 0) break;
    name += policy::lower(as_text(*label));
  }
  if (pointers == 0) reader = at;
  return name;
}

std::optional<HostName> host_of_dns_name(std::string_view wire) {
  std::string text;
  while (!wire.empty()) {
    const std::size_t size = static_cast<unsigned char>(wire.front());
    if (size == 0) break;
    if (size >= wire.size()) return std::nullopt;
    const std::string_view label = wire.substr(1, size);
    if (label.find('.') != std::string_view::npos) return std::nullopt;
    if (!text.empty()) text.push_back('.');
    text += label;
    wire.remove_prefix(size + 1);
  }
  auto host = HostName::parse(text);
  if (!host) return std::nullopt;
  return std::move(*host);
}

std::string dns_name_of_host(const HostName& host) {
  std::string wire;
  std::string_view rest = host.text();
  for (;;) {
    const std::string_view label = rest.substr(0, rest.find('.'));
    wire.push_back(static_cast<char>(label.size()));
    wire += label;
    if (label.size() == rest.size()) break;
    rest.remove_prefix(label.size() + 1);
  }
  wire.push_back('\0');
  return wire;
}

std::expected<std::optional<std::size_t>, DnsFault> dns_tcp_message(Bytes bytes,
                                                                    std::size_t message_bytes_max) {
  ByteReader reader(bytes);
  const auto size = reader.u16();
  if (!size) return std::optional<std::size_t>();
  if (*size < kDnsHeaderBytes) return std::unexpected(DnsFault::Short);
  if (*size > message_bytes_max) return std::unexpected(DnsFault::TooLong);
  if (reader.left() < *size) return std::optional<std::size_t>();
  return std::optional<std::size_t>(*size);
}

Buffer with_dns_tcp_length(Bytes message) {
  CAISSON_ASSERT(message.size() <= kDnsTcpBytesMax);
  Buffer out;
  out.reserve(message.size() + 2);
  put_u16(out, static_cast<std::uint16_t>(message.size()));
  put_bytes(out, message);
  return out;
}

}  // namespace caisson::egress
