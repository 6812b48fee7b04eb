#include "egress/wire/dns_query.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::egress {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

// "\3www\7example\3com\0"
std::string wire(std::initializer_list<std::string_view> labels) {
  std::string out;
  for (const std::string_view label : labels) {
    out.push_back(static_cast<char>(label.size()));
    out += label;
  }
  out.push_back('\0');
  return out;
}

Buffer query_of(std::string_view name, DnsType type = DnsType::A, std::uint16_t space = kDnsClassIn,
                DnsHeader header = {0x1234, 0x0100, 1, 0, 0, 0}) {
  Buffer out;
  put_dns_header(out, header);
  put_bytes(out, as_bytes(name));
  put_u16(out, static_cast<std::uint16_t>(type));
  put_u16(out, space);
  return out;
}

void add_edns(Buffer& query, std::uint16_t udp_bytes, std::size_t option_bytes = 0) {
  query[11] = 1;
  query.push_back(0);
  put_u16(query, static_cast<std::uint16_t>(DnsType::Opt));
  put_u16(query, udp_bytes);
  put_u32(query, 0x8000);
  put_u16(query, static_cast<std::uint16_t>(option_bytes));
  query.resize(query.size() + option_bytes);
}

const std::string kName = wire({"API", "Example", "com"});

void expect_refused(const Buffer& query, DnsFault fault, std::optional<DnsRcode> rcode) {
  const auto parsed = parse_dns_query(query);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(to_string(parsed.error().fault), to_string(fault));
  EXPECT_EQ(parsed.error().rcode, rcode);
  const auto reply = build_dns_refusal(parsed.error(), DnsTransport::Udp);
  ASSERT_EQ(reply.has_value(), rcode.has_value());
  if (!reply) return;
  ByteReader reader(*reply);
  const auto header = read_dns_header(reader);
  ASSERT_TRUE(header && reader.done());
  EXPECT_EQ(header->id, 0x1234);
  EXPECT_TRUE(header->is_answer());
  EXPECT_EQ(header->rcode(), *rcode);
}

TEST(DnsQuery, WhatIsNotOneQuestionIsRefused) {
  const Buffer good = query_of(kName);
  expect_refused(Buffer(good.begin(), good.begin() + 11), DnsFault::Short, std::nullopt);
  for (std::size_t size = kDnsHeaderBytes; size < good.size(); ++size) {
    const Buffer cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    expect_refused(cut, DnsFault::Short, DnsRcode::FormErr);
  }
  const auto with = [](DnsHeader header, std::uint16_t space = kDnsClassIn) {
    return query_of(kName, DnsType::A, space, header);
  };
  expect_refused(with({0x1234, 0x8100, 1, 0, 0, 0}), DnsFault::NotQuery, std::nullopt);
  expect_refused(with({0x1234, 0x2900, 1, 0, 0, 0}), DnsFault::Opcode, DnsRcode::NotImp);
  expect_refused(with({0x1234, 0x0300, 1, 0, 0, 0}), DnsFault::Short, DnsRcode::FormErr);
  expect_refused(with({0x1234, 0, 0, 0, 0, 0}), DnsFault::QuestionCount, DnsRcode::FormErr);
  expect_refused(with({0x1234, 0, 2, 0, 0, 0}), DnsFault::QuestionCount, DnsRcode::FormErr);
  expect_refused(with({0x1234, 0, 1, 1, 0, 0}), DnsFault::UnexpectedRecord, DnsRcode::FormErr);
  expect_refused(with({0x1234, 0, 1, 0, 1, 0}), DnsFault::UnexpectedRecord, DnsRcode::FormErr);
  expect_refused(with({0x1234, 0, 1, 0, 0, 2}), DnsFault::UnexpectedRecord, DnsRcode::FormErr);
  expect_refused(with({0x1234, 0, 1, 0, 0, 1}), DnsFault::Short, DnsRcode::FormErr);
  expect_refused(with({0x1234, 0, 1, 0, 0, 0}, 3), DnsFault::BadClass, DnsRcode::Refused);
  Buffer trailing = good;
  trailing.push_back(0);
  expect_refused(trailing, DnsFault::Trailing, DnsRcode::FormErr);
  Buffer not_opt = good;
  add_edns(not_opt, 1232);
  not_opt[good.size() + 2] = 16;  // TXT
  expect_refused(not_opt, DnsFault::UnexpectedRecord, DnsRcode::FormErr);
}

TEST(DnsQuery, NamesCannotTurnInCircles) {
  const auto fault = [](std::string_view name) {
    const auto parsed = parse_dns_query(query_of(name));
    EXPECT_FALSE(parsed);
    return parsed ? DnsFault::Trailing : parsed.error().fault;
  };
  EXPECT_EQ(fault("\xc0\x0c"sv), DnsFault::BadName);       // itself
  EXPECT_EQ(fault("\3abc\xc0\x0c"sv), DnsFault::BadName);  // its own beginning
  EXPECT_EQ(fault("\xc0\x40"sv), DnsFault::BadName);       // forward
  EXPECT_EQ(fault("\xc0\0"sv), DnsFault::BadName);         // into the header
  EXPECT_EQ(fault("\x40xyz\0"sv), DnsFault::BadName);      // a kind of label nobody uses
  EXPECT_EQ(fault("\x80xyz\0"sv), DnsFault::BadName);
  std::string longest;
  for (int i = 0; i < 127; ++i) longest += "\1a"sv;
  EXPECT_TRUE(parse_dns_query(query_of(longest + '\0')));
  EXPECT_EQ(fault(longest + "\1b\0"s), DnsFault::BadName);
}

TEST(DnsQuery, ALabelWithADotIsNoHost) {
  for (const std::string& name : {wire({"good.example"}), wire({"a", "b.c"}), wire({}),
                                  wire({"a b", "c"}), wire({"a\0b"sv, "c"}), wire({"127", "1"}),
                                  wire({"\xc3\xa4", "example"}), wire({"-a", "example"})}) {
    const auto parsed = parse_dns_query(query_of(name));
    ASSERT_TRUE(parsed);
    EXPECT_FALSE(parsed->host);
  }
}

TEST(DnsQuery, TheLimitIsReached) {
  Buffer query = query_of(kName);
  const std::size_t bare = query.size() + 11;
  Buffer largest = query;
  add_edns(largest, 4096, kDnsQueryBytesMax - bare);
  ASSERT_EQ(largest.size(), kDnsQueryBytesMax);
  EXPECT_TRUE(parse_dns_query(largest));
  add_edns(query, 4096, kDnsQueryBytesMax - bare + 1);
  expect_refused(query, DnsFault::TooLong, DnsRcode::FormErr);
}

TEST(DnsQuery, AnAnswerRepeatsTheQuestionAsItWasSent) {
  const auto query = parse_dns_query(query_of(kName));
  ASSERT_TRUE(query);
  ASSERT_TRUE(query->host);
  EXPECT_EQ(query->host->text(), "api.example.com");
  const IpAddress v4 = *IpAddress::parse("198.18.1.0");
  const IpAddress v6 = *IpAddress::parse("fd63:6169:7373:6f6e::100");
  const Buffer answer =
      build_dns_answer(*query, {DnsRcode::NoError, {v6, v4}, 30}, DnsTransport::Udp);
  std::string want = "\x12\x34\x81\x80\0\1\0\1\0\0\0\0"s + kName + "\0\1\0\1"s;
  want += "\xc0\x0c\0\1\0\1\0\0\0\x1e\0\4\xc6\x12\1\0"sv;
  EXPECT_EQ(as_text(answer), want);
  const Buffer framed = build_dns_answer(*query, {DnsRcode::NoError, {v4}, 30}, DnsTransport::Tcp);
  EXPECT_EQ(as_text(framed).substr(2), want);
  EXPECT_EQ(framed[1], want.size());
}

TEST(DnsQuery, NoSuchNameAndNoSuchTypeHaveNoAddress) {
  const IpAddress v4 = *IpAddress::parse("198.18.1.0");
  for (const DnsType type : {DnsType::A, DnsType::Aaaa, DnsType::Txt, DnsType::Soa}) {
    const auto query = parse_dns_query(query_of(kName, type));
    ASSERT_TRUE(query);
    for (const DnsRcode rcode :
         {DnsRcode::NxDomain, DnsRcode::Refused, DnsRcode::ServFail, DnsRcode::NoError}) {
      const bool found = rcode == DnsRcode::NoError && type == DnsType::A;
      const Buffer answer = build_dns_answer(*query, {rcode, {v4}, 30}, DnsTransport::Udp);
      EXPECT_EQ(answer[3] & 0xf, static_cast<int>(rcode));
      EXPECT_EQ(answer[7], found ? 1 : 0);
    }
  }
}

TEST(DnsQuery, WhatDoesNotFitIsTruncated) {
  const std::vector<IpAddress> many(40, *IpAddress::parse("198.18.1.0"));
  Buffer bytes = query_of(kName);
  const auto plain = parse_dns_query(bytes);
  add_edns(bytes, 65535);
  const auto large = parse_dns_query(bytes);
  ASSERT_TRUE(plain && large);
  EXPECT_EQ(large->udp_bytes, kDnsUdpBytesMax);
  const DnsAnswer answer{DnsRcode::NoError, many, 30};
  const Buffer cut = build_dns_answer(*plain, answer, DnsTransport::Udp);
  EXPECT_LE(cut.size(), kDnsUdpBytesMin);
  EXPECT_NE(cut[2] & 2, 0);
  EXPECT_EQ(cut[7], 0);
  const Buffer whole = build_dns_answer(*large, answer, DnsTransport::Udp);
  EXPECT_EQ(whole[2] & 2, 0);
  EXPECT_EQ(whole[7], 40);
  EXPECT_EQ(whole[11], 1);  // the EDNS record
  EXPECT_LE(whole.size(), kDnsUdpBytesMax);
  const Buffer tcp = build_dns_answer(*plain, answer, DnsTransport::Tcp);
  EXPECT_EQ(tcp[2 + 7], 40);
}

TEST(DnsQuery, TcpMessagesHaveTheirLengthInFront) {
  const Buffer message = query_of(kName);
  const Buffer framed = with_dns_tcp_length(message);
  for (std::size_t size = 0; size < framed.size(); ++size) {
    const auto got = dns_tcp_message(Bytes(framed).first(size), kDnsQueryBytesMax);
    ASSERT_TRUE(got);
    EXPECT_FALSE(*got) << size;
  }
  EXPECT_EQ(dns_tcp_message(framed, kDnsQueryBytesMax).value(), message.size());
  EXPECT_EQ(dns_tcp_message(Buffer{0, 11}, kDnsQueryBytesMax).error(), DnsFault::Short);
  EXPECT_EQ(dns_tcp_message(Buffer{0xff, 0xff}, kDnsQueryBytesMax).error(), DnsFault::TooLong);
}

}  // namespace
}  // namespace caisson::egress
