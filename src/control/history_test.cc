#include "control/history.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <condition_variable>
#include <mutex>

#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

namespace asio = boost::asio;

class HistoryTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    history_.reset();
    store_.reset();
    store_ = store::Store::open({.path = dir_.path("db"), .anchor_path = ""}).value();
    history_ = History::make(io_.get_executor(), *store_);
  }
  template <class T>
  T run(awaitable<T> work) {
    auto future = asio::co_spawn(io_, std::move(work), asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }

  sys::TempDir dir_;
  asio::io_context io_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<History> history_;
};

store::RunRecord record(std::string id, std::string sandbox) {
  return {.id = std::move(id),
          .sandbox = std::move(sandbox),
          .command = "true",
          .exit_code = 0,
          .started = 1};
}

store::RunPiece piece(std::string of, std::string content) {
  store::RunPiece made;
  made.run = std::move(of);
  made.content = std::move(content);
  return made;
}

TEST_F(HistoryTest, ListingsOutliveTheServer) {
  ASSERT_TRUE(run(history_->put_listing({"red", "one", 5, R"({"a":1})"})));
  ASSERT_TRUE(run(history_->put_listing({"blue", "two", 3, "{}"})));
  ASSERT_TRUE(run(history_->put_listing({"red", "one", 5, R"({"a":2})"})));
  open();
  const auto found = history_->listings();
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ((*found)[0].id, "two");
  EXPECT_EQ((*found)[1].tenant, "red");
  EXPECT_EQ((*found)[1].spec, R"({"a":2})");
  EXPECT_EQ((*found)[1].created, 5);
}

TEST_F(HistoryTest, AListingTakesItsRunsAlong) {
  ASSERT_TRUE(run(history_->put_listing({"red", "one", 5, "{}"})));
  ASSERT_TRUE(run(history_->put_run(record("a", "one"))));
  ASSERT_TRUE(run(history_->put_pieces(record("b", "two"), {piece("b", "hello")}, std::nullopt)));
  EXPECT_EQ(run(history_->runs({.sandbox = "one"}))->size(), 1U);
  ASSERT_TRUE(run(history_->forget_listing("red", "one")));
  EXPECT_TRUE(history_->listings()->empty());
  EXPECT_TRUE(run(history_->runs({.sandbox = "one"}))->empty());
  EXPECT_FALSE(run(history_->run("a")).value());
  EXPECT_TRUE(run(history_->run("b")).value());
  EXPECT_EQ(run(history_->pieces({.run = "b"}))->at(0).content, "hello");
}

TEST_F(HistoryTest, PiecesAreTrimmedInTheSameStep) {
  store::RunTrim trim{.run = "a", .keep_bytes = 3};
  ASSERT_TRUE(
      run(history_->put_pieces(record("a", "one"), {piece("a", "old"), piece("a", "new")}, trim)));
  const auto left = run(history_->pieces({.run = "a"}));
  ASSERT_EQ(left->size(), 1U);
  EXPECT_EQ(left->at(0).content, "new");
  store::RunPiece large = piece("a", std::string(store::kRunPieceBytesMax + 1, 'x'));
  const auto refused = run(history_->put_pieces(std::nullopt, {std::move(large)}, std::nullopt));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::TooLarge);
}

// A store whose disk is slow.
class SlowStore final : public store::Store {
 public:
  void write(Batch, Done done) override { done({}); }
  Result<std::vector<store::AuditRow>> audit(const store::AuditQuery&) override { return {}; }
  Result<store::Verdict> verify() override { return {}; }
  Result<std::vector<store::TokenRecord>> tokens() override { return {}; }
  Result<std::vector<store::SandboxRecord>> living() override { return {}; }
  Result<std::optional<store::SandboxRecord>> sandbox(std::string_view) override {
    return std::nullopt;
  }
  Result<std::optional<store::RunRecord>> run(std::string_view) override {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return open_; });
    return std::nullopt;
  }
  Result<void> flush() override { return {}; }
  [[nodiscard]] Counters counters() const override { return {}; }

  void let_go() {
    {
      const std::scoped_lock lock(mutex_);
      open_ = true;
    }
    wake_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool open_ = false;
};

TEST(HistoryLimits, SoManyQuestionsWaitAndNoMore) {
  asio::io_context io;
  SlowStore store;
  const auto history = History::make(io.get_executor(), store);
  std::size_t answered = 0;
  std::size_t refused = 0;
  const auto count = [&](const std::exception_ptr&,
                         const Result<std::optional<store::RunRecord>>& got) {
    if (got) {
      ++answered;
    } else {
      EXPECT_EQ(got.error().code, Errc::Exhausted);
      ++refused;
    }
  };
  for (std::size_t at = 0; at < kHistoryReadersMax + 3; ++at)
    asio::co_spawn(io, history->run("a"), count);
  while (refused < 3) io.run_one();
  EXPECT_EQ(answered, 0U);
  store.let_go();
  io.run();
  EXPECT_EQ(answered, kHistoryReadersMax);
  EXPECT_EQ(refused, 3U);
  asio::co_spawn(io, history->run("a"), count);
  io.restart();
  io.run();
  EXPECT_EQ(answered, kHistoryReadersMax + 1);
}

}  // namespace
}  // namespace caisson::control
