// control/shield.h — work that goes on when the one who asked for it leaves.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <exception>
#include <memory>
#include <optional>

#include "base/result.h"
#include "engine/channel/wakeup.h"

namespace caisson::control {

// Runs `work` as a coroutine of its own. The caller's cancellation ends his wait and not the work:
// a sandbox half made or half destroyed is finished in either case. `work` owns its arguments.
template <class T>
boost::asio::awaitable<Result<T>> shielded(boost::asio::any_io_executor executor,
                                           boost::asio::awaitable<Result<T>> work) {
  struct Shared {
    explicit Shared(const boost::asio::any_io_executor& on) : wakeup(on) {}
    engine::Wakeup wakeup;
    std::optional<Result<T>> result;
  };
  const auto shared = std::make_shared<Shared>(executor);
  auto done = [shared](const std::exception_ptr& bug, Result<T> result) {
    if (bug) {
      shared->result = failure(Errc::Internal, "an exception left a coroutine of the library");
    } else {
      shared->result = std::move(result);
    }
    shared->wakeup.wake();
  };
  boost::asio::co_spawn(executor, std::move(work), std::move(done));
  while (!shared->result) {
    if (co_await shared->wakeup.wait() == engine::Wake::Cancelled)
      co_return failure(Errc::Gone, "the caller left");
  }
  co_return *std::move(shared->result);
}

}  // namespace caisson::control
