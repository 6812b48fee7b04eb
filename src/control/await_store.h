// control/await_store.h — from the store's writer thread back to the coroutine that waits.
//
//   const Result<void> written = co_await commit(store, std::move(batch));
//
// commit() returns when the batch is durable, or with the reason why it is not, on the executor of
// the coroutine that called. on_worker() does the same for the store's functions that wait for the
// disk. The io_context must outlive the store and the pool: declare it before them.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "store/store.h"

namespace caisson::control {

using boost::asio::awaitable;

namespace detail {

// One waiting coroutine. It is handed over whole: once the value is on its way, the thread that
// brought it holds nothing of the coroutine any more, so the frame is never freed over there.
template <class Value, class Handler>
class Waiter {
 public:
  using Executor = boost::asio::associated_executor_t<Handler>;

  explicit Waiter(Handler handler)
      : work_(boost::asio::get_associated_executor(handler)), handler_(std::move(handler)) {}

  static void resume(std::shared_ptr<Waiter> waiter, Value value) {
    const Executor executor = waiter->work_.get_executor();
    auto step = [waiter = std::move(waiter), value = std::move(value)]() mutable {
      Handler handler = std::move(waiter->handler_);
      waiter.reset();  // the guard goes before the coroutine goes on
      std::move(handler)(std::move(value));
    };
    boost::asio::post(executor, std::move(step));
  }

 private:
  boost::asio::executor_work_guard<Executor> work_;  // run() does not return while we wait
  Handler handler_;
};

}  // namespace detail

// `store` outlives the coroutine.
awaitable<Result<void>> commit(store::Store& store, store::Store::Batch batch);

// Runs `work`, which waits for a disk, on the pool and returns what it returned. `work` owns what
// it uses, or refers to what outlives the coroutine.
template <class Work>
awaitable<std::invoke_result_t<Work&>> on_worker(boost::asio::thread_pool& pool, Work work) {
  using Value = std::invoke_result_t<Work&>;
  auto begin = [&pool](auto handler, Work what) {
    using W = detail::Waiter<Value, decltype(handler)>;
    auto waiter = std::make_shared<W>(std::move(handler));
    auto job = [waiter = std::move(waiter), what = std::move(what)]() mutable {
      Value value = what();
      W::resume(std::move(waiter), std::move(value));
    };
    boost::asio::post(pool, std::move(job));
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(Value)>(
      begin, boost::asio::use_awaitable, std::move(work));
}

}  // namespace caisson::control
