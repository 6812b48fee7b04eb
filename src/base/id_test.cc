#include "base/id.h"

#include <gtest/gtest.h>

#include <set>

namespace caisson {
namespace {

TEST(SandboxId, RandomOnesDifferAndParseBack) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto id = SandboxId::random();
    ASSERT_TRUE(id);
    EXPECT_EQ(id->str().size(), SandboxId::kLength);
    const auto again = SandboxId::parse(id->str());
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, *id);
    EXPECT_TRUE(seen.insert(id->str()).second);
  }
}

TEST(SandboxId, RefusesWhatIsNotOne) {
  EXPECT_FALSE(SandboxId::parse(""));
  EXPECT_FALSE(SandboxId::parse("../../../../../../../etc/p"));
  EXPECT_FALSE(SandboxId::parse("ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
  EXPECT_FALSE(SandboxId::parse("abcdefghijklmnopqrstuvwxyz2"));
  EXPECT_FALSE(SandboxId::parse(std::string_view("abcdefghijklmnopqrstuvwxy\0", 26)));
}

}  // namespace
}  // namespace caisson
