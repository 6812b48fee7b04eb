// What callers may leave on the server's disk while their calls last.
#include "control/spool.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <span>

#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

TEST(SpoolAccounts, OneTenantHasItsShareAndTheOthersTheirs) {
  const SpoolAccounts accounts;
  const auto first = accounts.open("red");
  const auto second = accounts.open("red");
  const auto other = accounts.open("blue");
  first->set(kSpoolBytesMax - 10);
  EXPECT_EQ(second->room(), 10U) << "all spools of a tenant count together";
  second->set(10);
  EXPECT_EQ(first->room(), 0U);
  EXPECT_EQ(second->room(), 0U);
  EXPECT_EQ(other->room(), kSpoolBytesMax) << "a full neighbour takes nothing away";
  second->set(4);
  EXPECT_EQ(first->room(), 6U);
}

TEST(SpoolAccounts, AllTenantsTogetherHaveABound) {
  const SpoolAccounts accounts;
  std::vector<std::unique_ptr<SpoolAccounts::Account>> full;
  for (std::uint64_t bytes = 0; bytes < kSpoolAllBytesMax; bytes += kSpoolBytesMax) {
    full.push_back(accounts.open("tenant" + std::to_string(full.size())));
    EXPECT_EQ(full.back()->room(), kSpoolBytesMax);
    full.back()->set(kSpoolBytesMax);
  }
  const auto late = accounts.open("late");
  EXPECT_EQ(late->room(), 0U);
  full.pop_back();
  EXPECT_EQ(late->room(), kSpoolBytesMax) << "what goes gives its share back";
}

TEST(SpoolAccounts, ASpoolMayOutliveThem) {
  auto accounts = std::make_unique<SpoolAccounts>();
  const auto account = accounts->open("red");
  account->set(7);
  accounts.reset();
  EXPECT_EQ(account->room(), kSpoolBytesMax - 7);
}

class FileSpoolTest : public testing::Test {
 protected:
  std::shared_ptr<FileSpool> spool(const std::string& tenant) {
    auto made = FileSpool::make(folder_.path(), disk_, accounts_.open(tenant));
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : nullptr;
  }
  Result<void> write(FileSpool& to, std::string_view text) {
    Result<void> out;
    boost::asio::co_spawn(context_, to.write(std::as_bytes(std::span(text))),
                          [&](const std::exception_ptr& bug, Result<void> done) {
                            EXPECT_FALSE(bug);
                            out = std::move(done);
                          });
    context_.restart();
    context_.run();
    return out;
  }

  const sys::TempDir folder_;
  boost::asio::io_context context_{1};
  boost::asio::thread_pool disk_{1};
  const SpoolAccounts accounts_;
};

TEST_F(FileSpoolTest, TakesNothingBeyondTheTenantsShare) {
  const auto rest = accounts_.open("red");
  rest->set(kSpoolBytesMax - 5);
  const auto mine = spool("red");
  EXPECT_TRUE(write(*mine, "12345"));
  const auto more = write(*mine, "6");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::TooLarge);
  EXPECT_EQ(mine->size(), 5U) << "what was there stays";
  EXPECT_EQ(mine->room(), 0U);
  const auto others = spool("blue");
  EXPECT_TRUE(write(*others, "123456"));
  rest->set(0);
  EXPECT_TRUE(write(*mine, "6"));
}

// A process of ours that writes by itself is counted as soon as somebody looks.
TEST_F(FileSpoolTest, CountsWhatAProcessWrote) {
  const auto mine = spool("red");
  const auto file = mine->descriptor();
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(::write(file->get(), "1234567", 7), 7);
  const auto again = accounts_.open("red");
  EXPECT_EQ(again->room(), kSpoolBytesMax);
  ASSERT_TRUE(mine->measure());
  EXPECT_EQ(mine->size(), 7U);
  EXPECT_EQ(again->room(), kSpoolBytesMax - 7);
}

}  // namespace
}  // namespace caisson::control
