// config check: would a server start with this file, and what would hold?
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_session.h"
#include "policy/settings/settings.h"
#include "policy/yaml_tree.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

Result<policy::Settings> effective(const std::string& file, bool file_only) {
  policy::Settings settings;
  if (!file.empty()) {
    const std::string text = TRY(sys::read_small(AT_FDCWD, file, policy::kCapabilityBytesMax));
    settings = TRY(policy::parse_settings(text, file));
  }
  if (!file_only) {
    std::vector<std::string> variables;
    for (char** at = environ; *at != nullptr; ++at) variables.emplace_back(*at);
    TRY(policy::apply_environment(settings, variables));
  }
  TRY(policy::check_settings(settings));
  return settings;
}

}  // namespace

int config_command(std::span<char*> args) {
  CommandLine line("The configuration of a server.");
  std::string file;
  bool file_only = false;
  bool quiet = false;
  CommandLine& check = line.command("check", "check it and print what would hold, as YAML");
  check.word("file", file, Need::Optional, "FILE", "caisson.yaml; without one, the defaults");
  check.flag("--file-only", file_only, "leave out CAISSON_… of the environment");
  check.flag("-q,--quiet", quiet, "print nothing when it is valid");
  if (const auto done = line.parse(args)) return *done;
  const auto settings = effective(file, file_only);
  if (!settings) {
    complain("config check", one_line(settings.error().message));
    return kExitFailed;
  }
  if (quiet) return kExitOk;
  return print_out(policy::to_yaml(*settings)) ? kExitOk : kExitFailed;
}

}  // namespace caisson::cli
