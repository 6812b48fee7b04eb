// exec whose output goes on as it comes. It is a process in the background that somebody waits for:
// whoever leaves early, or cannot take its output, ends it.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <csignal>

#include "control/fleet_impl.h"
#include "control/shield.h"
#include "engine/link/exec_exit.h"

namespace caisson::control {
namespace {

constexpr milliseconds kEndWait{5'000};

awaitable<void> end_process(std::shared_ptr<engine::GuestChannel> guest, std::uint32_t process) {
  (void)co_await guest->signal(process, SIGKILL, wire::SignalTarget::Tree);
  (void)co_await guest->wait(process, kEndWait);
  (void)co_await guest->forget(process);
}

// Whoever leaves while it starts leaves nothing that runs.
awaitable<Result<engine::GuestProcess>> begin_process(std::shared_ptr<engine::GuestChannel> guest,
                                                      engine::StartOptions options,
                                                      std::weak_ptr<bool> wanted) {
  auto started = co_await guest->start(std::move(options));
  if (started && wanted.expired()) co_await end_process(guest, started->id);
  co_return started;
}

class Ender {
 public:
  Ender(boost::asio::any_io_executor executor, std::shared_ptr<engine::GuestChannel> guest,
        std::uint32_t process)
      : executor_(std::move(executor)), guest_(std::move(guest)), process_(process) {}
  Ender(const Ender&) = delete;
  Ender& operator=(const Ender&) = delete;
  ~Ender() {
    if (guest_ && guest_->alive())
      boost::asio::co_spawn(executor_, end_process(guest_, process_), boost::asio::detached);
  }
  void ended() noexcept { guest_ = nullptr; }

 private:
  boost::asio::any_io_executor executor_;
  std::shared_ptr<engine::GuestChannel> guest_;
  std::uint32_t process_;
};

engine::StartOptions options_of(engine::ExecRequest request) {
  engine::StartOptions options;
  options.argv = std::move(request.argv);
  options.env = std::move(request.env);
  options.cwd = std::move(request.cwd);
  options.uid = request.user.uid;
  options.gid = request.user.gid;
  options.groups = std::move(request.groups);
  options.timeout = request.timeout;
  options.grace = request.grace;
  options.flags = (request.merge_error ? wire::kStartMergeError : 0U) |
                  (request.hold              ? wire::kStartHold
                   : request.keep_background ? 0U
                                             : wire::kStartKillTree);
  return options;
}

}  // namespace

awaitable<Result<ExecOutcome>> FleetImpl::run_aloud(std::shared_ptr<engine::GuestChannel> guest,
                                                    engine::ExecRequest request, OutputSink sink) {
  if (!request.input.empty())
    co_return bad_field("stdin", "stdin: a command whose output is streamed takes none");
  const auto wanted = std::make_shared<bool>(true);
  auto started =
      co_await shielded(executor_, begin_process(guest, options_of(std::move(request)), wanted));
  if (!started) co_return std::unexpected(started.error());
  Ender ender(executor_, guest, started->id);
  auto output = co_await guest->attach(started->id, 0, 0);
  if (!output) co_return std::unexpected(output.error());
  ExecOutcome outcome;
  for (;;) {
    auto item = co_await (*output)->next();
    if (!item) co_return std::unexpected(item.error());
    if (const auto* data = std::get_if<engine::GuestData>(&*item)) {
      (data->error ? outcome.err_lost : outcome.out_lost) += data->lost;
      const auto taken = co_await sink(data->error, data->bytes);
      if (!taken) co_return std::unexpected(taken.error());
      continue;
    }
    const auto& exited = std::get<wire::ExitedBody>(*item);
    engine::take_exit(outcome, exited);
    break;
  }
  ender.ended();
  output->reset();
  (void)co_await guest->forget(started->id);
  co_return outcome;
}

}  // namespace caisson::control
