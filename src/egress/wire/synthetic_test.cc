#include "egress/wire/synthetic.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace caisson::egress {
namespace {

HostName host(std::size_t i) { return *HostName::parse("n" + std::to_string(i) + ".example"); }

TEST(AddressBook, AddressesWithoutANameHaveNone) {
  AddressBook book;
  EXPECT_EQ(book.find(synthetic_pair(0).v4), nullptr);
  ASSERT_TRUE(book.assign(host(0)));
  for (const char* text :
       {"198.18.0.0", "198.18.0.255", "198.18.1.1", "198.19.255.255", "198.17.255.255",
        "198.20.0.0", "127.0.0.1", "::", "::1", "fd63:6169:7373:6f6e::", "fd63:6169:7373:6f6e::101",
        "fd63:6169:7373:6f6e:0:1::100", "fd63:6169:7373:6f6e:1::100", "fd63:6169:7373:6f6f::100",
        "::ffff:198.18.1.0", "fd63:6169:7373:6f6e::ffff:ffff"}) {
    EXPECT_EQ(book.find(*IpAddress::parse(text)), nullptr) << text;
  }
}

TEST(AddressBook, AFullBookSaysSoAndForgetsNothing) {
  AddressBook book;
  std::set<IpAddress> seen;
  for (std::size_t i = 0; i < kSyntheticNamesMax; ++i) {
    const auto pair = book.assign(host(i));
    ASSERT_TRUE(pair);
    EXPECT_TRUE(seen.insert(pair->v4).second && seen.insert(pair->v6).second);
    EXPECT_TRUE(is_synthetic(pair->v4) && is_synthetic(pair->v6));
  }
  EXPECT_TRUE(book.full());
  EXPECT_FALSE(book.assign(host(kSyntheticNamesMax)));
  EXPECT_EQ(book.size(), kSyntheticNamesMax);
  EXPECT_EQ(book.assign(host(7)), synthetic_pair(7));
  const AddressBook moved = std::move(book);
  for (std::size_t i = 0; i < kSyntheticNamesMax; ++i) {
    const SyntheticPair pair = synthetic_pair(static_cast<std::uint32_t>(i));
    ASSERT_NE(moved.find(pair.v4), nullptr);
    EXPECT_EQ(*moved.find(pair.v4), host(i));
    EXPECT_EQ(moved.find(pair.v6), moved.find(pair.v4));
  }
}

TEST(AddressBook, TheOrderIsThatOfTheQuestions) {
  AddressBook book;
  EXPECT_EQ(to_string(book.assign(host(5))->v4), "198.18.1.0");
  EXPECT_EQ(to_string(book.assign(host(1))->v6), "fd63:6169:7373:6f6e::101");
  EXPECT_EQ(to_string(book.assign(host(5))->v6), "fd63:6169:7373:6f6e::100");
  EXPECT_EQ(book.size(), 2U);
}

}  // namespace
}  // namespace caisson::egress
