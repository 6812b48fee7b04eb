#include "cli/id_ranges.h"

#include <gtest/gtest.h>

namespace caisson::cli {
namespace {

TEST(IdRanges, SubIdsThatMeetOursAreNamed) {
  const auto refused = [](std::string_view text) {
    const auto outcome = check_sub_ids("/etc/subuid", text, kNobodysId);
    return outcome ? std::string() : outcome.error().message;
  };
  EXPECT_EQ(refused(""), "");
  EXPECT_EQ(refused("ann:100000:65536\nbob:165536:65536\n"), "");
  EXPECT_EQ(refused("ann:100000:899999\n"), "") << "it ends right below";
  EXPECT_NE(refused("ann:100000:899999\nbob:999999:1\n").find("bob:999999:1"), std::string::npos);
  EXPECT_NE(refused("ann:100000:900000").find("the server's own id"), std::string::npos);
  EXPECT_NE(refused("ann:1000000:1\n").find("store"), std::string::npos);
  EXPECT_NE(refused("ann:1065535:65536\n").find("store"), std::string::npos);
  EXPECT_EQ(refused("ann:1065536:65536\n"), "") << "between the store and the slots";
  EXPECT_NE(refused("root:2000000:1000000000\n").find("sandboxes"), std::string::npos);
  EXPECT_NE(refused("ann:1500000:4294967295\n").find("sandboxes"), std::string::npos);
  EXPECT_NE(refused("ann:2500000:1").find("usermod"), std::string::npos) << "the remedy";
}

TEST(IdRanges, WhatIsNoRangeIsNobodys) {
  for (const char* text : {"ann", "ann:", "ann:x:y", "ann:1000000", "ann:1000000:0",
                           "ann:99999999999999999999:5", "# 1000000", "::", "ann:-1:5"})
    EXPECT_TRUE(check_sub_ids("/etc/subgid", text, 5)) << text;
  EXPECT_FALSE(check_sub_ids("/etc/subgid", "ann:5:1", 5));
}

}  // namespace
}  // namespace caisson::cli
