// engine/launcher/keeper.h — starts the worker, waits, starts it again.
//
// The keeper knows nothing that could break: no sandbox, no message. It holds the listening socket
// and the writing end of a pipe, the lifeline, whose end tells the worker that nobody is left to
// start it again. A worker that ends by itself ends the keeper, too. One that is killed is replaced
// when the last process it had started is gone.
#pragma once

#include <functional>

#include "base/result.h"

namespace caisson::engine {

// What the worker's function returns, as its process ends with it.
inline constexpr int kWorkerDone = 0;
inline constexpr int kWorkerCannotStart = 125;

// `worker` runs in a child and gets the reading end of the lifeline. `started` runs here once the
// first one exists. Returns when the launcher is to end: kWorkerDone, or kWorkerCannotStart when
// already the first one could not.
[[nodiscard]] Result<int> keep(const std::function<int(int lifeline)>& worker,
                               const std::function<void()>& started);

}  // namespace caisson::engine
