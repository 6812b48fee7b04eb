// caisson mcp: sandboxes for an agent, by the Model Context Protocol over standard input and
// output.
#include <optional>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_config.h"
#include "cli/client_session.h"
#include "cli/mcp_private_server.h"
#include "cli/mcp_relay.h"
#include "cli/relay.h"

namespace caisson::cli {
namespace {

struct McpWords {
  ClientOptions client;
  std::string config;
};

// A server that somebody named: by a flag, by the environment, or in client.yaml.
Result<std::optional<Endpoint>> named_server(const ClientOptions& options) {
  EndpointSources sources = sources_of_caller();
  sources.flag_url = options.url;
  sources.flag_token = options.token;
  bool named = !sources.flag_url.empty() || !sources.env_url.empty();
  if (!named && !sources.config_folder.empty())
    named = TRY(read_client_file(sources.config_folder + "/caisson/client.yaml")).has_value();
  if (!named) return std::nullopt;
  return TRY(find_endpoint(sources));
}

Result<void> talk(const Endpoint& endpoint, int signals) {
  const auto remote = TRY(open_remote(endpoint));
  const auto socket = TRY(remote->socket("/mcp"));
  McpPipes pipes;
  pipes.signals = signals;
  return relay_mcp(*socket, pipes);
}

Result<void> serve_client(const McpWords& words) {
  auto endpoint = TRY(named_server(words.client));
  if (endpoint && !words.config.empty())
    return bad_field("--config",
                     "--config is for a server of its own, and one is named by --url, "
                     "CAISSON_URL or client.yaml");
  const UniqueFd signals = TRY(watch_signals());
  if (endpoint) return talk(*endpoint, signals.get());
  const PrivateServer server =
      TRY(PrivateServer::start(words.config.empty() ? std::nullopt : std::optional(words.config)));
  return talk(Endpoint{server.url(), ""}, signals.get());
}

}  // namespace

int mcp_command(std::span<char*> args) {
  CommandLine line(
      "Offers sandboxes to an agent: the Model Context Protocol over standard input and output. "
      "Without a server it starts one of its own, which ends with it.");
  McpWords words;
  add_client_options(line, words.client, JsonFlag::None);
  line.text("--config", words.config, "FILE", "settings of a server of its own");
  if (const auto done = line.parse(args)) return *done;
  const auto served = serve_client(words);
  if (served) return kExitOk;
  complain(args[0], one_line(served.error().message));
  if (served.error().code == Errc::InvalidArgument) return kExitUsage;
  return exit_status_of(served.error());
}

}  // namespace caisson::cli
