#include "http/hop_fields.h"

#include <gtest/gtest.h>

namespace caisson::http {

TEST(HopFields, OwnAndNamed) {
  const std::vector<Field> fields = {
      {"Connection", "X-One, ,\tkeep-alive"}, {"connection", "x-two"}, {"X-Three", "Connection"}};
  const HopFields hop(fields);
  for (const char* gone : {"Connection", "TE", "Transfer-Encoding", "content-length", "UPGRADE",
                           "Proxy-Authorization", "x-one", "X-Two"}) {
    EXPECT_TRUE(hop.drops(gone)) << gone;
  }
  for (const char* kept : {"X-Three", "Host", "", "Content-Type", "Tex"}) {
    EXPECT_FALSE(hop.drops(kept)) << kept;
  }
  EXPECT_FALSE(HopFields({}).drops("X-One"));
}

}  // namespace caisson::http
