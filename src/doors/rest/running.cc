#include "doors/rest/running.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>

namespace caisson::rest {

namespace asio = boost::asio;

namespace {
constexpr milliseconds kEndTimeout{5000};
}

awaitable<void> end_command(Call& call, std::uint32_t process) {
  // Each step may find that the work is done already, or that the sandbox has ended. A command that
  // has ended took along what it started; nobody need be told that it was killed.
  const auto view = co_await call.fleet().process(call.caller, call.id(), process);
  if (view && view->running) {
    (void)co_await call.fleet().signal(call.caller, call.id(), process, SIGKILL, true);
    (void)co_await call.fleet().wait(call.caller, call.id(), process, kEndTimeout);
  }
  (void)co_await call.fleet().forget(call.caller, call.id(), process);
}

awaitable<Result<RunningCommand>> start_attached(Call& call, control::ProcessWish wish) {
  auto view = co_await call.fleet().start(call.caller, call.id(), std::move(wish));
  if (!view) co_return std::unexpected(view.error());
  auto output = co_await call.fleet().attach(call.caller, call.id(), view->id, 0, 0);
  if (!output) {
    co_await end_command(call, view->id);
    co_return std::unexpected(output.error());
  }
  RunningCommand running{std::move(*view), std::move(*output)};
  co_return running;
}

Result<engine::AdmitOutput> admit_output(Call& call) {
  // Twice: a string that grows has up to as much again in reserve, and JSON stands beside it later.
  constexpr std::size_t kHeldPerByte = 2;
  Budget::Hold& hold = call.hold();
  const std::size_t before = hold.bytes();
  if (!hold.overdraw(before + kCommandBytes)) return Budget::exhausted();
  return [&hold, before, kept = std::size_t{0}](std::size_t bytes) mutable {
    const std::size_t all = kept + kHeldPerByte * bytes;
    if (all > kCommandBytes && !hold.overdraw(before + all)) return false;
    kept = all;
    return true;
  };
}

awaitable<void> wait_for_ever() {
  asio::steady_timer never(co_await asio::this_coro::executor,
                           asio::steady_timer::time_point::max());
  boost::system::error_code ec;
  co_await never.async_wait(asio::redirect_error(asio::use_awaitable, ec));
}

}  // namespace caisson::rest
