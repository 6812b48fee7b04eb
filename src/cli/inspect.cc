#include <fmt/format.h>

#include "base/id.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_session.h"

namespace caisson::cli {

// A sandbox of `caisson run` or of the library lives and ends with the process that made it; those
// of others belong to a server.
int inspect_command(std::span<char*> args) {
  CommandLine line("Shows a live sandbox of the server, as JSON.");
  ClientOptions options;
  std::string id;
  std::string word;
  add_client_options(line, options, JsonFlag::Offered);
  line.text("--sandbox-id", id, "ID", "the sandbox's id");
  line.word("sandbox", word, Need::Optional, "SANDBOX", "id or name");
  if (const auto done = line.parse(args)) return *done;
  if (id.empty() == word.empty()) {
    complain(args[0], "write the id or the name of one sandbox");
    return kExitUsage;
  }
  if (!id.empty()) {
    if (const auto parsed = SandboxId::parse(id); !parsed) {
      complain(args[0], parsed.error().message);
      return kExitUsage;
    }
    word = id;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  auto found = session->resolve(word);
  Result<std::string> body = found ? session->text("GET", sandbox_target(*found))
                                   : Result<std::string>(std::unexpected(found.error()));
  if (!body && exit_status_of(body.error()) == kExitUnreachable) {
    complain(args[0], fmt::format("sandbox '{}' is not known here: no server answers at {}",
                                  one_line(word), session->remote().url()));
    return kExitFailed;
  }
  if (!body) return session->fail(body.error());
  if (options.json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto sandbox = parse_json(*body);
  if (!sandbox) return session->fail(sandbox.error());
  return print_out(pretty(*sandbox)) ? kExitOk : kExitFailed;
}

}  // namespace caisson::cli
