#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "control/local_spec.h"
#include "engine/launcher/core.h"
#include "engine/launcher/serve.h"
#include "sys/raw.h"

namespace caisson::cli {
namespace {

constexpr int kSocket = 3;

Result<void> serve_private(const std::string& state_dir) {
  engine::native::TierOptions options;
  options.host = engine::probe_host();
  options.state_dir = state_dir;
  options.lifetime = engine::native::Lifetime::Service;
  engine::LauncherCore core = TRY(engine::LauncherCore::open(std::move(options)));
  return engine::serve(core, kSocket);
}

}  // namespace

int launcher_command(std::span<char*> args) {
  CLI::App app("The privileged part, for programs that use the library. Not for people.");
  bool for_parent = false;
  std::string state_dir = control::default_state_dir(::geteuid());
  app.add_flag("--private", for_parent, "serve the program that started us, on descriptor 3")
      ->required();
  app.add_option("--state-dir", state_dir, "where layers and slots are kept")->type_name("PATH");
  if (const auto done = parse(app, args)) return *done;
  // Only the three standard descriptors and the socket are ours; the rest came from a stranger.
  (void)sys::raw::close_range(kSocket + 1, ~0U, 0);
  (void)::fcntl(kSocket, F_SETFD, FD_CLOEXEC);
  // A terminal's ^C is meant for the program we work for. When that ends we see it on the socket.
  ::setsid();
  ::signal(SIGPIPE, SIG_IGN);
  const auto served = serve_private(state_dir);
  if (served) return kExitOk;
  complain(args[0], served.error().message);
  return kExitSandbox;
}

}  // namespace caisson::cli
