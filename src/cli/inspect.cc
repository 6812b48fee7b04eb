#include "base/id.h"
#include "cli/cli.h"
#include "cli/options.h"

namespace caisson::cli {

// A sandbox of `caisson run` or of the library lives and ends with the process that made it; those
// of others belong to a server.
int inspect_command(std::span<char*> args) {
  CLI::App app("Shows a live sandbox.");
  std::string id;
  app.add_option("--sandbox-id", id, "the sandbox's id")->required()->type_name("ID");
  if (const auto done = parse(app, args)) return *done;
  if (const auto parsed = SandboxId::parse(id); !parsed) {
    complain(args[0], parsed.error().message);
    return kExitUsage;
  }
  complain(args[0], "sandbox '" + id + "' is not known here: no server runs on this machine");
  return kExitFailed;
}

}  // namespace caisson::cli
