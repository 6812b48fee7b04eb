#include "control/await_store.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

namespace asio = boost::asio;

store::Store::Batch one_row() {
  store::Store::Batch batch;
  batch.audit.emplace_back();
  batch.audit[0].action = "test";
  return batch;
}

class AwaitStore : public testing::Test {
 protected:
  sys::TempDir dir_;
  asio::io_context io_;  // before the store: a late answer is posted to it
  std::unique_ptr<store::Store> store_ =
      store::Store::open({.path = dir_.path("db"), .anchor_path = ""}).value();
};

awaitable<void> write_rows(store::Store& store, int count, int& done, std::thread::id home) {
  for (int number = 0; number < count; ++number) {
    store::Store::Batch batch = one_row();
    const Result<void> written = co_await commit(store, std::move(batch));
    EXPECT_TRUE(written);
    EXPECT_EQ(std::this_thread::get_id(), home);
    ++done;
  }
}

TEST_F(AwaitStore, ComesBackOnTheCallersThread) {
  int done = 0;
  for (int coroutine = 0; coroutine < 32; ++coroutine)
    asio::co_spawn(io_, write_rows(*store_, 20, done, std::this_thread::get_id()), asio::detached);
  io_.run();  // returns only when nobody waits any more
  EXPECT_EQ(done, 32 * 20);
  EXPECT_EQ(store_->verify().value().rows, 32 * 20);
}

awaitable<void> write_too_much(store::Store& store, Result<void>& result) {
  store::Store::Batch batch = one_row();
  batch.audit[0].detail.assign(store::kDetailBytesMax + 1, 'x');
  result = co_await commit(store, std::move(batch));
}

// Refused from inside write(): the coroutine is resumed later, not within itself.
TEST_F(AwaitStore, ARefusalComesBackAlike) {
  Result<void> result;
  asio::co_spawn(io_, write_too_much(*store_, result), asio::detached);
  io_.run();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::TooLarge);
}

awaitable<void> read_on(asio::thread_pool& pool, store::Store& store, std::size_t& rows,
                        std::thread::id home) {
  auto work = [&store, home] {
    EXPECT_NE(std::this_thread::get_id(), home);
    return store.audit({});
  };
  const auto got = co_await on_worker(pool, work);
  EXPECT_EQ(std::this_thread::get_id(), home);
  rows = got.value().size();
}

TEST_F(AwaitStore, WhatWaitsForTheDiskRunsElsewhere) {
  asio::thread_pool pool(1);
  int done = 0;
  std::size_t rows = 0;
  asio::co_spawn(io_, write_rows(*store_, 3, done, std::this_thread::get_id()), asio::detached);
  io_.run();
  io_.restart();
  asio::co_spawn(io_, read_on(pool, *store_, rows, std::this_thread::get_id()), asio::detached);
  io_.run();
  EXPECT_EQ(rows, 3U);
}

// The server stops while answers are outstanding: nothing is freed on the wrong thread, or twice.
TEST_F(AwaitStore, AStoppedServerLeavesItsWaiters) {
  int done = 0;
  for (int coroutine = 0; coroutine < 32; ++coroutine)
    asio::co_spawn(io_, write_rows(*store_, 20, done, std::this_thread::get_id()), asio::detached);
  for (int step = 0; step < 40; ++step) io_.run_one();
  io_.stop();
  store_.reset();
}

}  // namespace
}  // namespace caisson::control
