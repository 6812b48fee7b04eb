#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/serve_launcher.h"
#include "control/local_spec.h"
#include "engine/launcher/core.h"
#include "engine/launcher/keeper.h"
#include "engine/launcher/rendezvous.h"
#include "engine/launcher/serve.h"
#include "engine/launcher/service.h"
#include "sys/raw.h"

namespace caisson::cli {
namespace {

constexpr int kSocket = 3;  // --private: the one who started us; --tell-ready: where to say so

struct LauncherOptions {
  bool for_parent = false;
  bool service = false;
  bool tell_ready = false;
  engine::ServiceOptions serve;
  std::uint64_t store_bytes = 0;
};

Result<engine::LauncherCore> open_core(const std::string& state_dir, std::uint64_t store_bytes) {
  engine::native::TierOptions options;
  options.host = engine::probe_host();
  options.state_dir = state_dir;
  options.lifetime = engine::native::Lifetime::Service;
  options.pool_bytes = store_bytes;
  return engine::LauncherCore::open(std::move(options));
}

Result<void> serve_private(const std::string& state_dir) {
  engine::LauncherCore core = TRY(open_core(state_dir, 0));
  return engine::serve(core, kSocket);
}

// One line for the one who started us: "ready", or why not.
void tell(int fd, const std::string& line) {
  if (fd < 0) return;
  const std::string text = line + "\n";
  (void)!::write(fd, text.data(), text.size());
  ::close(fd);
}

// The worker's whole life, in its own process.
int work(const LauncherOptions& options, const engine::Rendezvous& place, int lifeline,
         int tell_fd) {
  (void)::pthread_setname_np(::pthread_self(), "caisson-worker");
  const auto serve = [&]() -> Result<void> {
    engine::LauncherCore core = TRY(open_core(options.serve.state_dir, options.store_bytes));
    engine::Service service =
        TRY(engine::Service::open(core, options.serve, place.listener.get(), lifeline));
    tell(std::exchange(tell_fd, -1), "ready");
    return service.run();
  };
  const auto served = serve();
  if (served) return engine::kWorkerDone;
  complain("launcher", served.error().message);
  tell(tell_fd, served.error().message);
  return engine::kWorkerCannotStart;
}

Result<int> serve_many(const LauncherOptions& options) {
  if (::geteuid() != 0)
    return failure(Errc::Unsupported, "--service needs root: each sandbox has ids of its own");
  (void)::pthread_setname_np(::pthread_self(), "caisson-keeper");
  // Each sandbox keeps a few descriptors here.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  int tell_fd = options.tell_ready ? kSocket : -1;
  auto place = engine::Rendezvous::open(options.serve.state_dir, options.serve.server_uid);
  if (!place) {
    const bool taken = place.error().code == Errc::Busy;
    tell(tell_fd, std::string(taken ? kPlaceTaken : "") + place.error().message);
    return std::unexpected(place.error());
  }
  const auto worker = [&](int lifeline) {
    const int code = work(options, *place, lifeline, tell_fd);
    // Without a keeper nobody else takes the name away; with one it is gone a moment earlier.
    if (code == engine::kWorkerDone) (void)::unlink(place->path.c_str());
    return code;
  };
  const auto started = [&] {
    if (tell_fd >= 0) ::close(std::exchange(tell_fd, -1));
  };
  auto kept = engine::keep(worker, started);
  (void)::unlink(place->path.c_str());
  return kept;
}

int run_launcher(const LauncherOptions& options) {
  if (options.service) {
    const auto kept = serve_many(options);
    if (kept) return *kept;
    complain("launcher", kept.error().message);
    return kExitSandbox;
  }
  // A terminal's ^C is meant for the program we work for. When that ends we see it on the socket.
  ::setsid();
  const auto served = serve_private(options.serve.state_dir);
  if (served) return kExitOk;
  complain("launcher", served.error().message);
  return kExitSandbox;
}

}  // namespace

int launcher_command(std::span<char*> args) {
  CLI::App app("The privileged part, for the server and for programs that use the library.");
  LauncherOptions options;
  options.serve.state_dir = control::default_state_dir(::geteuid());
  std::int64_t grace = options.serve.orphan_grace.count();
  auto* kind = app.add_option_group("kind");
  kind->add_flag("--private", options.for_parent,
                 "serve the program that started us, on descriptor 3");
  kind->add_flag("--service", options.service, "serve the servers of a state directory");
  kind->require_option(1);
  app.add_option("--state-dir", options.serve.state_dir, "where layers and slots are kept")
      ->type_name("PATH");
  app.add_option("--server-uid", options.serve.server_uid, "who may connect, beside root")
      ->type_name("UID");
  app.add_option("--orphan-grace", grace,
                 "end sandboxes without a time to live after so long without a server")
      ->type_name("SECONDS")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{365} * 86400));
  app.add_option("--store-bytes", options.store_bytes,
                 "size of the store of layers where one is yet to be made; 0: a quarter of what is "
                 "free, 32 GiB at most")
      ->type_name("BYTES");
  app.add_flag("--tell-ready", options.tell_ready,
               "say on descriptor 3 when requests are answered");
  if (const auto done = parse(app, args)) return *done;
  options.serve.orphan_grace = seconds(grace);
  // Only the three standard descriptors and the one we were given are ours; the rest came from a
  // stranger.
  const bool given = options.for_parent || options.tell_ready;
  (void)sys::raw::close_range(given ? kSocket + 1 : kSocket, ~0U, 0);
  if (given) (void)::fcntl(kSocket, F_SETFD, FD_CLOEXEC);
  ::signal(SIGPIPE, SIG_IGN);
  return run_launcher(options);
}

}  // namespace caisson::cli
