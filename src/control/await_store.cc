#include "control/await_store.h"

namespace caisson::control {

awaitable<Result<void>> commit(store::Store& store, store::Store::Batch batch) {
  auto begin = [&store](auto handler, store::Store::Batch what) {
    using W = detail::Waiter<Result<void>, decltype(handler)>;
    auto waiter = std::make_shared<W>(std::move(handler));
    store.write(std::move(what), [waiter = std::move(waiter)](Result<void> result) mutable {
      W::resume(std::move(waiter), std::move(result));
    });
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>,
                                                 void(Result<void>)>(
      begin, boost::asio::use_awaitable, std::move(batch));
}

}  // namespace caisson::control
