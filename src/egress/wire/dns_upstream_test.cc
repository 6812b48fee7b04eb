#include "egress/wire/dns_upstream.h"

#include <gtest/gtest.h>

#include <string>

#include "egress/wire/dns_query.h"

namespace caisson::egress {
namespace {

constexpr std::uint16_t kId = 0xbeef;

HostName host(std::string_view text) { return *HostName::parse(text); }
std::string name(std::string_view text) { return dns_name_of_host(host(text)); }

// Builds what a server might say, right or wrong.
class Answer {
 public:
  explicit Answer(std::string_view question = "a.example", DnsType type = DnsType::A,
                  std::uint16_t flags = 0x8180, std::uint16_t id = kId) {
    put_dns_header(bytes_, {id, flags, 1, 0, 0, 0});
    put_bytes(bytes_, as_bytes(name(question)));
    put_u16(bytes_, static_cast<std::uint16_t>(type));
    put_u16(bytes_, kDnsClassIn);
  }
  Answer& record(std::string_view owner, DnsType type, std::string_view data,
                 std::uint32_t ttl = 300, std::uint16_t space = kDnsClassIn) {
    put_bytes(bytes_, as_bytes(owner));
    put_u16(bytes_, static_cast<std::uint16_t>(type));
    put_u16(bytes_, space);
    put_u32(bytes_, ttl);
    put_u16(bytes_, static_cast<std::uint16_t>(data.size()));
    put_bytes(bytes_, as_bytes(data));
    const std::size_t count = (std::size_t{bytes_[6]} << 8) + bytes_[7] + 1;
    bytes_[6] = static_cast<std::uint8_t>(count >> 8);
    bytes_[7] = static_cast<std::uint8_t>(count);
    return *this;
  }
  Answer& address(std::string_view owner, std::string_view data, std::uint32_t ttl = 300) {
    return record(name(owner), DnsType::A, data, ttl);
  }
  Answer& alias(std::string_view from, std::string_view to, std::uint32_t ttl = 300) {
    return record(name(from), DnsType::Cname, name(to), ttl);
  }
  [[nodiscard]] std::expected<UpstreamAnswer, DnsFault> parse(DnsType type = DnsType::A) const {
    return parse_upstream_answer(bytes_, kId, host("a.example"), type);
  }
  Buffer& bytes() { return bytes_; }

 private:
  Buffer bytes_;
};

TEST(DnsUpstream, AnAnswerToAnotherQueryCountsForNothing) {
  EXPECT_EQ(Answer("a.example", DnsType::A, 0x8180, 1).parse().error(), DnsFault::WrongId);
  EXPECT_EQ(Answer("b.example").parse().error(), DnsFault::WrongQuestion);
  EXPECT_EQ(Answer("a.example", DnsType::Aaaa).parse().error(), DnsFault::WrongQuestion);
  EXPECT_EQ(Answer("a.example", DnsType::A, 0x0100).parse().error(), DnsFault::NotAnswer);
  EXPECT_EQ(Answer("a.example", DnsType::A, 0xa980).parse().error(), DnsFault::Opcode);
  Answer none;
  none.bytes()[5] = 0;
  EXPECT_EQ(none.parse().error(), DnsFault::QuestionCount);
}

TEST(DnsUpstream, EveryCutIsNoticed) {
  Answer whole;
  whole.alias("a.example", "b.example").address("b.example", "\x01\x02\x03\x04");
  ASSERT_TRUE(whole.parse());
  for (std::size_t size = 0; size < whole.bytes().size(); ++size) {
    const Bytes cut = Bytes(whole.bytes()).first(size);
    EXPECT_FALSE(parse_upstream_answer(cut, kId, host("a.example"), DnsType::A)) << size;
  }
}

TEST(DnsUpstream, OnlyTheEndOfOurChainHasOurAddresses) {
  Answer answer;
  // In any order, with strangers in between.
  answer.address("evil.example", "\x09\x09\x09\x09")
      .address("c.example", "\x01\x01\x01\x01", 20)
      .alias("b.example", "c.example", 10)
      .alias("x.example", "evil.example", 1)
      .address("a.example", "\x07\x07\x07\x07")
      .alias("a.example", "b.example", 50)
      .address("c.example", "\x02\x02\x02\x02", 30);
  const auto parsed = answer.parse();
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  EXPECT_EQ(parsed->addresses, (std::vector{IpAddress::v4(0x01010101), IpAddress::v4(0x02020202)}));
  EXPECT_EQ(parsed->ttl_seconds, 10U);
  EXPECT_EQ(parsed->aliases, 2U);
}

TEST(DnsUpstream, ChainsHaveAnEnd) {
  Answer circle;
  circle.alias("a.example", "b.example").alias("b.example", "a.example");
  EXPECT_EQ(circle.parse().error(), DnsFault::AliasChain);
  Answer itself;
  itself.alias("a.example", "a.example");
  EXPECT_EQ(itself.parse().error(), DnsFault::AliasChain);
  Answer fork;
  fork.alias("a.example", "b.example").alias("a.example", "c.example");
  EXPECT_EQ(fork.parse().error(), DnsFault::BadRecord);
  Answer chain;
  std::string from = "a.example";
  for (std::size_t i = 0; i < kDnsAliasesMax; ++i) {
    const std::string to = "n" + std::to_string(i) + ".example";
    chain.alias(from, to);
    from = to;
  }
  Answer longer = chain;
  chain.address(from, "\x01\x01\x01\x01");
  EXPECT_EQ(chain.parse()->addresses.size(), 1U);
  longer.alias(from, "end.example").address("end.example", "\x01\x01\x01\x01");
  EXPECT_EQ(longer.parse().error(), DnsFault::AliasChain);
}

TEST(DnsUpstream, RecordsAreCountedAndMeasured) {
  Answer addresses;
  for (std::size_t i = 0; i < kDnsAddressesMax; ++i) addresses.address("a.example", "\1\1\1\1");
  EXPECT_EQ(addresses.parse()->addresses.size(), kDnsAddressesMax);
  addresses.address("a.example", "\1\1\1\1");
  EXPECT_EQ(addresses.parse().error(), DnsFault::TooManyRecords);
  Answer records;
  for (std::size_t i = 0; i < kDnsRecordsMax; ++i) {
    records.record(name("a.example"), DnsType::Txt, "x");
  }
  EXPECT_TRUE(records.parse());
  records.record(name("a.example"), DnsType::Txt, "x");
  EXPECT_EQ(records.parse().error(), DnsFault::TooManyRecords);
  EXPECT_EQ(Answer().address("a.example", "\1\1\1").parse().error(), DnsFault::BadRecord);
  EXPECT_EQ(Answer().address("a.example", std::string(16, '\1')).parse().error(),
            DnsFault::BadRecord);
  EXPECT_EQ(Answer().record(name("a.example"), DnsType::A, "\1\1\1\1", 1, 4).parse().error(),
            DnsFault::BadClass);
  EXPECT_EQ(Answer().record(name("a.example"), DnsType::Cname, name("b.c") + "x").parse().error(),
            DnsFault::BadRecord);
}

TEST(DnsUpstream, PointersLeadBackOnly) {
  // 0xc00c is the question's name.
  EXPECT_EQ(Answer().record("\xc0\x0c", DnsType::A, "\1\1\1\1").parse()->addresses.size(), 1U);
  EXPECT_EQ(Answer().record("\xc0\x1b", DnsType::A, "\1\1\1\1").parse().error(), DnsFault::BadName);
  EXPECT_EQ(Answer().record("\xc0\xff", DnsType::A, "\1\1\1\1").parse().error(), DnsFault::BadName);
}

TEST(DnsUpstream, ErrorsAndTruncationAreAnswers) {
  const auto missing = Answer("a.example", DnsType::A, 0x8183).parse();
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->rcode, DnsRcode::NxDomain);
  const auto cut = Answer("a.example", DnsType::A, 0x8380).address("a.example", "\1\1\1\1").parse();
  ASSERT_TRUE(cut);
  EXPECT_TRUE(cut->truncated);
  EXPECT_TRUE(cut->addresses.empty());
  EXPECT_TRUE(Answer().parse()->addresses.empty());
  EXPECT_EQ(Answer().address("a.example", "\1\1\1\1", 0xffffffff).parse()->ttl_seconds, 0U);
  EXPECT_EQ(Answer().address("a.example", "\1\1\1\1", 999999).parse()->ttl_seconds,
            kDnsTtlSecondsMax);
}

TEST(DnsUpstream, OurQueryIsOneWeWouldAccept) {
  const Buffer bytes = build_upstream_query(kId, host("API.example"), DnsType::Aaaa);
  const auto query = parse_dns_query(bytes);
  ASSERT_TRUE(query);
  EXPECT_EQ(query->id, kId);
  EXPECT_EQ(query->host->text(), "api.example");
  EXPECT_EQ(query->type, static_cast<std::uint16_t>(DnsType::Aaaa));
  EXPECT_TRUE(query->has_edns);
  const IpAddress six = *IpAddress::parse("2606:4700::1111");
  const Buffer reply = build_dns_answer(*query, {DnsRcode::NoError, {six}, 60}, DnsTransport::Udp);
  const auto answer = parse_upstream_answer(reply, kId, host("api.example"), DnsType::Aaaa);
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(answer->addresses, std::vector{six});
  EXPECT_EQ(answer->ttl_seconds, 60U);
}

}  // namespace
}  // namespace caisson::egress
