// caissond — the server, without any privilege. `caisson serve` makes its surroundings (state
// directory, launcher, listening sockets) as root and becomes this program.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <span>
#include <string_view>

#include "control/idle_launcher.h"
#include "main/egress_process.h"
#include "main/import_sandboxer.h"
#include "main/server_life.h"
#include "main/server_options.h"
#include "sys/process.h"

int main(int argc, char** argv) {
  // Nobody of the same id reads our memory, which holds what tenants wrote.
  caisson::sys::refuse_tracing();
  (void)std::signal(SIGPIPE, SIG_IGN);
  // The way out of a single run, and nothing else of the server.
  if (argc == 2 && std::string_view(argv[1]) == "egress") return caisson::server::egress_process();
  // For `caisson user import`: what an old database holds, and nothing else of the server.
  if (argc == 3 && std::string_view(argv[1]) == "read-sandboxer")
    return caisson::server::read_sandboxer(argv[2]);
  caisson::server::ServerFlags flags;
  if (const auto done =
          caisson::server::parse_flags(std::span(argv, static_cast<std::size_t>(argc)), flags))
    return *done;
  const auto served = caisson::server::serve(flags);
  if (served) return 0;
  // It came to life for this start alone, unless sandboxes of an earlier server are in it.
  caisson::control::end_idle_launcher(flags.launcher_socket);
  fmt::print(stderr, "caisson serve: {}\n", served.error().message);
  return served.error().code == caisson::Errc::InvalidArgument ? 2 : 1;
}
