#include "doors/sandboxer/life.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "control/shield.h"
#include "doors/sandboxer/words.h"

namespace caisson::sandboxer {

namespace asio = boost::asio;

namespace {

constexpr milliseconds kTryAgain{1'000};  // while a sandbox is paused, or the launcher is away
constexpr std::uint16_t kRows = 24;
constexpr std::uint16_t kColumns = 80;

using Output = std::unique_ptr<control::OutputStream>;

std::string command_text(const Row& row) {
  std::string out;
  for (const std::string& word : row.command) out.append(out.empty() ? "" : " ").append(word);
  constexpr std::size_t kBytesMax = 4096;
  return doors::lossy_utf8(std::string_view(out).substr(0, kBytesMax));
}

std::shared_ptr<MainProcess> main_of(Services& services, const Row& row, std::uint64_t offset) {
  std::shared_ptr<Log> log;
  if (!row.interactive) {
    store::RunRecord run;
    run.id = std::string(kMainRun) + row.name;
    run.sandbox = std::string(kLogOwner) + row.id;
    run.command = command_text(row);
    run.started = row.created;
    log = std::make_shared<Log>(services.executor, services.history, std::move(run), offset);
  }
  return std::make_shared<MainProcess>(services.executor, std::move(log));
}

// A row stays when its sandbox is gone, and a tenant has thousands: what nobody asks for any more,
// and may be a megabyte, goes.
void close_row(Row& row, store::WallTime now, std::string reason) {
  row.deleted_at = now;
  row.delete_reason = std::move(reason);
  row.command = {};
}

enum class After : std::uint8_t { Ended, TryAgain, Leave };

// Its stream broke. Is the sandbox gone, or can it be asked again?
After judge(Services& services, const Row& row) {
  if (services.closed) return After::Leave;
  const auto view = services.fleet.get(own_caller(row.tenant), row.name);
  if (view) return After::TryAgain;
  switch (view.error().code) {
    case Errc::NotFound:
      return After::Ended;
    case Errc::Gone:  // the server ends
      return After::Leave;
    default:
      return After::TryAgain;
  }
}

// Everything the process says, until it ends (its code), or the stream breaks (nothing).
awaitable<std::optional<control::ProcessView>> drain(control::OutputStream& output,
                                                     MainProcess& main) {
  for (;;) {
    auto item = co_await output.next();
    if (!item) co_return std::nullopt;
    if (auto* end = std::get_if<control::ProcessView>(&*item)) co_return std::move(*end);
    auto& chunk = std::get<control::OutputChunk>(*item);
    if (main.log()) {
      co_await main.log()->append(std::move(chunk.bytes));
    } else {
      co_await main.show(std::move(chunk.bytes));
    }
  }
}

// A terminal's past is nobody's business; a log goes on where it stopped.
awaitable<Result<Output>> attach_again(ServicesPtr services, RowPtr row, MainProcess& main) {
  const control::Caller caller = own_caller(row->tenant);
  std::uint64_t offset = main.log() ? main.log()->offset() : 0;
  if (!main.log()) {
    const auto view = co_await services->fleet.process(caller, row->name, row->process);
    if (!view) co_return std::unexpected(view.error());
    offset = view->end[0];
  }
  co_return co_await services->fleet.attach(caller, row->name, row->process, offset, 0);
}

awaitable<void> follow(ServicesPtr services, RowPtr row, std::shared_ptr<MainProcess> main,
                       Output output) {
  std::optional<control::ProcessView> end;
  for (;;) {
    if (output) end = co_await drain(*output, *main);
    output.reset();
    if (end) break;
    const After after = judge(*services, *row);
    if (after == After::Leave) co_return;
    if (after == After::Ended) break;
    auto again = co_await attach_again(services, row, *main);
    if (again) {
      output = *std::move(again);
    } else if (again.error().code == Errc::NotFound && judge(*services, *row) == After::TryAgain) {
      break;  // the sandbox is there, and knows nothing of the process
    } else {
      co_await pause_for(kTryAgain);
    }
  }
  if (end) row->exit_code = end->exit_code;
  if (main->log()) co_await main->log()->finish(row->exit_code);
  main->end();
  row->main.reset();
  if (services->closed || !row->living() || row->ending) co_return;
  (void)co_await end_life(services, own_caller(row->tenant), row, std::string(kMainEnded));
}

awaitable<Result<control::ProcessView>> start_command(Services& services,
                                                      const control::Caller& caller,
                                                      const Row& row) {
  control::ProcessWish wish;
  wish.exec.argv = row.command;
  wish.exec.merge_error = true;
  wish.terminal = row.interactive;
  wish.input = false;
  wish.rows = kRows;
  wish.columns = kColumns;
  co_return co_await services.fleet.start(caller, row.name, std::move(wish));
}

awaitable<Result<Output>> start_and_attach(ServicesPtr services, const control::Caller& caller,
                                           RowPtr row, Start start) {
  if (start == Start::Anew) {
    auto started = co_await start_command(*services, caller, *row);
    if (!started) co_return std::unexpected(started.error());
    row->process = started->id;
  }
  co_return co_await services->fleet.attach(caller, row->name, row->process, 0, 0);
}

// Both wait for the disk, so they wait together. The row on disk learns the number of the process
// with its next change; until then the oldest process is it.
awaitable<Result<void>> begin(ServicesPtr services, control::Caller caller, RowPtr row,
                              Start start) {
  using namespace asio::experimental::awaitable_operators;
  auto both = co_await (start_and_attach(services, caller, row, start) && keep_row(services, row));
  auto& output = std::get<0>(both);
  const auto& kept = std::get<1>(both);
  if (!output) {
    (void)co_await services->history.forget_listing(row->tenant, row->id);
    co_return std::unexpected(output.error());
  }
  if (!kept) co_return kept;
  if (start == Start::Anew) services->ledger->put_listing(listing_of(*row));
  row->main = main_of(*services, *row, 0);
  services->rows.add(row);
  services->tell(*row, "container_started", boost::json::object());
  asio::co_spawn(services->executor, follow(services, row, row->main, *std::move(output)),
                 asio::detached);
  co_return Result<void>{};
}

// The offset behind the last byte that is in the history.
awaitable<std::uint64_t> logged(Services& services, const Row& row) {
  LogReader reader(services.history, std::string(kMainRun) + row.name);
  for (;;) {
    const auto more = co_await reader.next();
    if (!more || more->empty()) break;
  }
  co_return static_cast<std::uint64_t>(reader.offset());
}

awaitable<std::uint32_t> oldest_process(Services& services, const Row& row) {
  const control::Caller caller = own_caller(row.tenant);
  const auto all = co_await services.fleet.processes(caller, row.name);
  if (!all || all->empty()) co_return 0;
  co_return std::ranges::max(*all, {}, &control::ProcessView::age_seconds).id;
}

awaitable<void> take_up(ServicesPtr services, RowPtr row) {
  const auto view = services->fleet.get(own_caller(row->tenant), row->name);
  if (!view && view.error().code == Errc::NotFound) {
    close_row(*row, services->now(), std::string(kStartupSync));
    (void)co_await keep_row(services, row);
    co_return;
  }
  if (row->process == 0) row->process = co_await oldest_process(*services, *row);
  const std::uint64_t offset = row->interactive ? 0 : co_await logged(*services, *row);
  row->main = main_of(*services, *row, offset);
  asio::co_spawn(services->executor, follow(services, row, row->main, nullptr), asio::detached);
}

}  // namespace

RowPlace::RowPlace(ServicesPtr services, std::string tenant)
    : services_(std::move(services)), tenant_(std::move(tenant)) {
  ++services_->making[tenant_];
}

RowPlace::~RowPlace() {
  const auto at = services_->making.find(tenant_);
  if (--at->second == 0) services_->making.erase(at);
}

awaitable<Result<std::unique_ptr<RowPlace>>> make_room(ServicesPtr services, std::string tenant) {
  const auto full = [&] {
    const auto making = services->making.find(tenant);
    return services->rows.count(tenant) + (making == services->making.end() ? 0 : making->second) >=
           services->options.rows_max;
  };
  while (full()) {
    const RowPtr old = services->rows.forgettable(tenant);
    if (!old)
      co_return failure(Errc::Exhausted, fmt::format("{} sandboxes are there: terminate one first",
                                                     services->options.rows_max));
    for (const RowPtr& child : services->rows.children(old->id))
      services->rows.set_parent(child, "");
    services->rows.remove(old);
    services->ledger->drop_listing(old->id);
    auto gone = co_await services->history.forget_listing(tenant, old->id);
    if (gone)
      gone = co_await services->history.forget_listing(tenant, std::string(kLogOwner) + old->id);
    if (!gone) co_return std::unexpected(gone.error());
  }
  co_return std::make_unique<RowPlace>(services, tenant);
}

awaitable<Result<void>> keep_row(ServicesPtr services, RowPtr row) {
  services->ledger->drop_listing(row->id);
  co_return co_await services->history.put_listing(listing_of(*row));
}

// Whoever asked may leave: a sandbox without a row would be nobody's.
awaitable<Result<void>> begin_life(ServicesPtr services, control::Caller caller, RowPtr row,
                                   Start start) {
  auto begun = co_await control::shielded(services->executor,
                                          begin(services, std::move(caller), row, start));
  if (begun) co_return begun;
  const control::Caller own = own_caller(row->tenant);
  (void)co_await services->fleet.destroy(own, row->name);
  co_return begun;
}

awaitable<void> wait_until_ready(ServicesPtr services, control::Caller caller, RowPtr row) {
  using namespace asio::experimental::awaitable_operators;
  if (row->port == 0 || !row->main) co_return;
  const auto main = row->main;
  (void)co_await (services->fleet.wait_for_port(caller, row->name, row->port,
                                                services->options.wait_for_port) ||
                  main->wait());
}

awaitable<Result<void>> end_life(ServicesPtr services, control::Caller caller, RowPtr row,
                                 std::string reason) {
  if (!row->living()) co_return Result<void>{};
  row->ending = true;
  row->is_public = services->is_public(*row);
  auto gone = co_await services->fleet.destroy(caller, row->name);
  if (!gone && gone.error().code != Errc::NotFound) {
    row->ending = false;
    co_return gone;
  }
  close_row(*row, services->now(), std::move(reason));
  row->ending = false;
  // Should the server die before this is on disk, the next one finds no sandbox and ends the row.
  services->ledger->put_listing(listing_of(*row));
  services->tell(*row, "container_stopped", boost::json::object());
  co_return Result<void>{};
}

void leave_main(Row& row) {
  if (row.main) row.main->end();
}

awaitable<Result<void>> take_up_rows(ServicesPtr services) {
  const auto listings = services->history.listings();
  if (!listings) co_return std::unexpected(listings.error());
  for (const control::Listing& listing : *listings) {
    auto row = row_of(listing);
    if (!row) {
      // One broken row must not break the list.
      services->failed("start", row.error());
      continue;
    }
    services->rows.add(std::make_shared<Row>(*std::move(row)));
  }
  for (const RowPtr& row : services->rows.all()) {
    // Its parent was forgotten.
    if (!row->parent.empty() && !services->rows.by_id(row->parent))
      services->rows.set_parent(row, "");
    if (row->living()) co_await take_up(services, row);
  }
  co_return Result<void>{};
}

}  // namespace caisson::sandboxer
