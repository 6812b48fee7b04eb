// control/await_store.h — from the store's writer thread back to the coroutine that waits.
//
//   const Result<void> written = co_await commit(store, std::move(batch));
//
// commit() returns when the batch is durable, or with the reason why it is not, on the executor of
// the coroutine that called. on_worker() (base) does the same for the store's functions that wait
// for the disk. The io_context must outlive the store and the pool: declare it before them.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "base/on_worker.h"
#include "base/result.h"
#include "store/store.h"

namespace caisson::control {

using boost::asio::awaitable;

// `store` outlives the coroutine.
awaitable<Result<void>> commit(store::Store& store, store::Store::Batch batch);

}  // namespace caisson::control
