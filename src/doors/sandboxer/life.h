// doors/sandboxer/life.h — from a row's first moment to its last: the main process begins, is
// followed until it ends, and takes the sandbox with it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "doors/sandboxer/main_process.h"
#include "doors/sandboxer/services.h"

namespace caisson::sandboxer {

// Room for one more row of the tenant, as long as it lives: old ones are forgotten for it.
class RowPlace {
 public:
  RowPlace(ServicesPtr services, std::string tenant);
  ~RowPlace();
  RowPlace(const RowPlace&) = delete;
  RowPlace& operator=(const RowPlace&) = delete;

 private:
  ServicesPtr services_;
  std::string tenant_;
};
awaitable<Result<std::unique_ptr<RowPlace>>> make_room(ServicesPtr services, std::string tenant);

enum class Start : std::uint8_t {
  Anew,
  Kept,  // it is there already: a fork that kept its memory
};
// Starts the row's command in its sandbox, puts the row into the list and follows from then on.
// When it fails, the sandbox is gone and there is no row. `caller` is who asked.
awaitable<Result<void>> begin_life(ServicesPtr services, control::Caller caller, RowPtr row,
                                   Start start = Start::Anew);
// Until the port that the image exposes is open, the main process has ended, or time is over.
awaitable<void> wait_until_ready(ServicesPtr services, control::Caller caller, RowPtr row);
// The sandbox goes and the row says why. Fails when control could not do it. The audit has
// `caller`.
awaitable<Result<void>> end_life(ServicesPtr services, control::Caller caller, RowPtr row,
                                 std::string reason);
awaitable<Result<void>> keep_row(ServicesPtr services, RowPtr row);

// The server ends: nobody waits for it any more, and nothing is changed.
void leave_main(Row& row);

// At the start: rows of earlier servers. Those whose sandbox is there are taken up again.
awaitable<Result<void>> take_up_rows(ServicesPtr services);
awaitable<Result<ImportCount>> import_rows(ServicesPtr services, control::Caller caller,
                                           ImportWish wish);

}  // namespace caisson::sandboxer
