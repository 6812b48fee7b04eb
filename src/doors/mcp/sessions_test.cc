#include "doors/mcp/sessions.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <vector>

#include "doors/preview/fakes_test.h"

namespace caisson::mcp {
namespace {

// No sandbox is made here: sessions alone.
class SessionsTest : public testing::Test {
 protected:
  SessionsTest() {
    options_.now = [this] { return now_; };
    options_.sessions_max = 4;
    options_.sessions_per_token = 3;
  }
  static control::Caller caller(const std::string& actor) {
    control::Caller out;
    out.tenant = "red";
    out.actor = actor;
    return out;
  }

  boost::asio::io_context io_;
  preview::fake::Fleet fleet_;
  McpOptions options_;
  TimePoint now_ = TimePoint() + std::chrono::hours(1000);
};

TEST_F(SessionsTest, BelongToTheirToken) {
  Homes homes(io_.get_executor(), fleet_, options_);
  Sessions sessions(homes, options_);
  const auto session = sessions.open(caller("a"), "2025-11-25");
  ASSERT_TRUE(session);
  EXPECT_EQ(sessions.find(caller("a"), (*session)->id), *session);
  EXPECT_EQ(sessions.find(caller("b"), (*session)->id), nullptr);
  EXPECT_EQ(sessions.find(caller("a"), "other"), nullptr);
  sessions.close(*session);
  EXPECT_EQ(sessions.find(caller("a"), (*session)->id), nullptr);
}

TEST_F(SessionsTest, AreBoundedAndIdleOnesMakeRoom) {
  Homes homes(io_.get_executor(), fleet_, options_);
  Sessions sessions(homes, options_);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(sessions.open(caller("a"), "2025-11-25"));
  EXPECT_EQ(sessions.open(caller("a"), "2025-11-25").error().code, Errc::Exhausted);
  const auto other = sessions.open(caller("b"), "2025-11-25");
  ASSERT_TRUE(other);
  EXPECT_EQ(sessions.open(caller("c"), "2025-11-25").error().code, Errc::Exhausted);
  now_ += options_.session_idle;
  EXPECT_EQ(sessions.find(caller("b"), (*other)->id), *other) << "and so it is used";
  now_ += seconds(1);
  EXPECT_TRUE(sessions.open(caller("a"), "2025-11-25"));
  EXPECT_EQ(sessions.size(), 2U);
}

TEST_F(SessionsTest, WhoListensIsNotIdle) {
  Homes homes(io_.get_executor(), fleet_, options_);
  Sessions sessions(homes, options_);
  const auto session = sessions.open(caller("a"), "2025-11-25");
  ++(*session)->streams;
  now_ += 2 * options_.session_idle;
  sessions.sweep();
  EXPECT_EQ(sessions.size(), 1U);
  --(*session)->streams;
  sessions.sweep();
  EXPECT_EQ(sessions.size(), 0U);
}

}  // namespace
}  // namespace caisson::mcp
