#include "egress/wire/address_class.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace caisson::egress {
namespace {

IpAddress ip(std::string_view text) {
  const auto address = IpAddress::parse(text);
  EXPECT_TRUE(address) << text;
  return address.value_or(IpAddress::v4(0));
}

using Row = std::pair<const char*, AddressClass>;

TEST(AddressClass, NothingInsideIsPublic) {
  const std::vector<Row> rows = {
      {"0.0.0.0", AddressClass::Unspecified},
      {"0.0.0.1", AddressClass::ThisNetwork},
      {"0.255.255.255", AddressClass::ThisNetwork},
      {"10.0.0.0", AddressClass::Private},
      {"10.255.255.255", AddressClass::Private},
      {"100.64.0.0", AddressClass::SharedCarrier},
      {"100.127.255.255", AddressClass::SharedCarrier},
      {"100.100.100.200", AddressClass::Metadata},
      {"127.0.0.1", AddressClass::Loopback},
      {"127.255.255.255", AddressClass::Loopback},
      {"168.63.129.16", AddressClass::Metadata},
      {"169.254.0.1", AddressClass::LinkLocal},
      {"169.254.169.254", AddressClass::Metadata},
      {"169.254.170.2", AddressClass::Metadata},
      {"172.16.0.0", AddressClass::Private},
      {"172.31.255.255", AddressClass::Private},
      {"192.0.0.192", AddressClass::Metadata},
      {"192.0.0.8", AddressClass::Assignments},
      {"192.0.2.1", AddressClass::Documentation},
      {"192.88.99.1", AddressClass::RelayAnycast},
      {"192.168.255.255", AddressClass::Private},
      {"198.18.0.0", AddressClass::Benchmarking},
      {"198.19.255.255", AddressClass::Benchmarking},
      {"198.51.100.7", AddressClass::Documentation},
      {"203.0.113.7", AddressClass::Documentation},
      {"224.0.0.1", AddressClass::Multicast},
      {"239.255.255.255", AddressClass::Multicast},
      {"240.0.0.1", AddressClass::Reserved},
      {"255.255.255.255", AddressClass::Broadcast},
      {"::", AddressClass::Unspecified},
      {"::1", AddressClass::Loopback},
      {"fc00::1", AddressClass::UniqueLocal},
      {"fdff:ffff::", AddressClass::UniqueLocal},
      {"fd00:ec2::254", AddressClass::Metadata},
      {"fd20:ce::254", AddressClass::Metadata},
      {"fe80::1", AddressClass::LinkLocal},
      {"febf::1", AddressClass::LinkLocal},
      {"fec0::1", AddressClass::SiteLocal},
      {"ff02::1", AddressClass::Multicast},
      {"2001:db8::1", AddressClass::Documentation},
      {"3fff:fff::1", AddressClass::Documentation},
      {"2001:2::1", AddressClass::Benchmarking},
      {"2001:10::1", AddressClass::Assignments},
      {"100::1", AddressClass::Reserved},
      {"4000::1", AddressClass::Reserved},
      {"5f00::1", AddressClass::Reserved},
      {"1::", AddressClass::Reserved},
  };
  for (const auto& [text, want] : rows) {
    const Judged judged = classify(ip(text));
    EXPECT_EQ(to_string(judged.kind), to_string(want)) << text;
    EXPECT_FALSE(judged.is_public()) << text;
  }
}

TEST(AddressClass, WhatIsWrappedIsTakenOutAndJudged) {
  const std::vector<Row> rows = {
      {"::ffff:127.0.0.1", AddressClass::Loopback},
      {"::ffff:169.254.169.254", AddressClass::Metadata},
      {"::ffff:0.0.0.0", AddressClass::Unspecified},
      {"::ffff:10.1.2.3", AddressClass::Private},
      {"::127.0.0.1", AddressClass::Loopback},
      {"::8.8.8.8", AddressClass::Compatible},
      {"64:ff9b::10.0.0.1", AddressClass::Private},
      {"64:ff9b::127.0.0.1", AddressClass::Loopback},
      {"64:ff9b:1::10.0.0.1", AddressClass::Private},
      {"64:ff9b:1::8.8.8.8", AddressClass::LocalNat64},
      {"64:ff9b:1:808:8:800::", AddressClass::Unspecified},
      {"2002:7f00:1::", AddressClass::Loopback},
      {"2002:808:808::1", AddressClass::SixToFour},
      {"2001:0:808:808:0:0:80ff:fffe", AddressClass::Loopback},  // 127.0.0.1, inverted
      {"2001:0:808:808:0:0:f7f7:f7f7", AddressClass::Teredo},    // 8.8.8.8, inverted
  };
  for (const auto& [text, want] : rows) {
    const Judged judged = classify(ip(text));
    EXPECT_EQ(to_string(judged.kind), to_string(want)) << text;
    EXPECT_FALSE(judged.is_public()) << text;
    EXPECT_NE(judged.wrapping, Wrapping::None) << text;
    EXPECT_EQ(judged.inner.family(), IpFamily::V4) << text;
  }
}

TEST(AddressClass, OutsideIsPublic) {
  for (const char* text :
       {"1.1.1.1",         "9.255.255.255",        "11.0.0.0",      "100.63.255.255",
        "100.128.0.0",     "126.255.255.255",      "128.0.0.0",     "169.253.255.255",
        "169.255.0.0",     "172.15.255.255",       "172.32.0.0",    "192.167.255.255",
        "192.169.0.0",     "198.17.255.255",       "198.20.0.0",    "223.255.255.255",
        "2606:4700::1111", "2001:4860:4860::8888", "2001:200::1",   "2003::1",
        "3ffe::1",         "64:ff9b::8.8.8.8",     "::ffff:8.8.8.8"}) {
    EXPECT_TRUE(classify(ip(text)).is_public()) << text;
  }
}

TEST(AddressClass, AMappedAddressIsConnectedAsWhatItIs) {
  const Judged mapped = classify(ip("::ffff:8.8.4.4"));
  EXPECT_EQ(mapped.address, ip("8.8.4.4"));
  const Judged nat64 = classify(ip("64:ff9b::8.8.4.4"));
  EXPECT_EQ(nat64.address, ip("64:ff9b::8.8.4.4"));
  EXPECT_EQ(nat64.inner, ip("8.8.4.4"));
  const IpAddress given = ip("::ffff:169.254.169.254");
  EXPECT_EQ(describe(classify(given), given),
            "169.254.169.254 (metadata service) inside ::ffff:169.254.169.254");
}

TEST(AddressClass, NobodyIsGrantedEveryone) {
  for (const char* text : {"0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "ff02::1", "255.255.255.255",
                           "240.0.0.1", "2002:808:808::1", "::8.8.8.8", "64:ff9b:1::8.8.8.8"}) {
    EXPECT_FALSE(is_grantable(classify(ip(text)).kind)) << text;
  }
  EXPECT_TRUE(is_grantable(AddressClass::Loopback));
  EXPECT_TRUE(is_grantable(AddressClass::Private));
}

TEST(IpAddress, OneSpellingEach) {
  for (const std::string_view text :
       {std::string_view("127.1"), std::string_view("0177.0.0.1"), std::string_view("127.0.0.01"),
        std::string_view("0x7f.0.0.1"), std::string_view("2130706433"), std::string_view("[::1]"),
        std::string_view("::1%lo"), std::string_view("127.0.0.1\0x", 11), std::string_view(""),
        std::string_view(" ::1"), std::string_view("1.2.3.4.5"), std::string_view("::1/128"),
        std::string_view("1:2:3:4:5:6:7:8:9"), std::string_view("256.0.0.1")}) {
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  }
  EXPECT_EQ(to_string(ip("2001:DB8:0:0:0:0:0:1")), "2001:db8::1");
  EXPECT_EQ(to_string(ip("8.8.8.8")), "8.8.8.8");
  EXPECT_FALSE(IpAddress::from_bytes(Buffer(5)));
  EXPECT_EQ(IpAddress::from_bytes(Buffer{1, 2, 3, 4}), ip("1.2.3.4"));
}

}  // namespace
}  // namespace caisson::egress
