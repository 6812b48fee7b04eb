// base/on_worker.h — work that waits for a disk, on a thread of the pool; the coroutine goes on
// where it was. It cannot be cancelled: what `work` refers to may live in the coroutine's frame.
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

namespace caisson {

namespace detail {

// One waiting coroutine. It is handed over whole, so that its frame is never freed by the thread
// that did the work.
template <class Value, class Handler>
class Waiter {
 public:
  using Executor = boost::asio::associated_executor_t<Handler>;

  explicit Waiter(Handler from)
      : work_(boost::asio::get_associated_executor(from)), handler_(std::move(from)) {}

  static void resume(std::shared_ptr<Waiter> self, Value value) {
    const Executor executor = self->work_.get_executor();
    auto step = [self = std::move(self), value = std::move(value)]() mutable {
      Handler handler = std::move(self->handler_);
      self.reset();  // the guard goes before the coroutine goes on
      std::move(handler)(std::move(value));
    };
    boost::asio::post(executor, std::move(step));
  }

 private:
  boost::asio::executor_work_guard<Executor> work_;  // run() does not return while we wait
  Handler handler_;
};

}  // namespace detail

// `work` owns what it uses, or refers to what outlives the coroutine.
template <class Work>
boost::asio::awaitable<std::invoke_result_t<Work&>> on_worker(boost::asio::thread_pool& pool,
                                                              Work work) {
  using Value = std::invoke_result_t<Work&>;
  auto begin = [&pool](auto handler, Work what) {
    using W = detail::Waiter<Value, decltype(handler)>;
    auto waiting = std::make_shared<W>(std::move(handler));
    auto job = [waiting = std::move(waiting), what = std::move(what)]() mutable {
      Value value = what();
      W::resume(std::move(waiting), std::move(value));
    };
    boost::asio::post(pool, std::move(job));
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(Value)>(
      begin, boost::asio::use_awaitable, std::move(work));
}

}  // namespace caisson
