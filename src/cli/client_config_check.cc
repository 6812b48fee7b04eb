// config check: would a server start with this file, and what would hold?
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_session.h"
#include "control/blocklist.h"
#include "policy/settings/settings.h"
#include "policy/yaml_tree.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

const policy::YamlNode* member(const policy::YamlNode* node, std::string_view name) {
  if (node == nullptr) return nullptr;
  for (std::size_t i = 0; i < node->keys.size(); ++i) {
    if (node->keys[i].name == name) return &node->items[i];
  }
  return nullptr;
}

// Where the file says so, if it does: a variable may have said it instead.
std::optional<policy::Position> place_of(const std::string& text, const std::string& pattern) {
  const auto tree = policy::parse_yaml(text);
  if (!tree) return std::nullopt;
  const policy::YamlNode* list = member(member(&*tree, "sandbox"), "command_blocklist");
  if (list == nullptr) return std::nullopt;
  for (const policy::YamlNode& one : list->items) {
    if (one.text == pattern) return one.at;
  }
  return std::nullopt;
}

// As the server would, at its start.
Result<void> check_blocklist(const std::vector<std::string>& patterns, const std::string& text,
                             const std::string& file) {
  for (const std::string& pattern : patterns) {
    const auto compiled = control::Blocklist::compile({pattern});
    if (compiled) continue;
    const auto at = place_of(text, pattern);
    if (!at) return std::unexpected(compiled.error());
    return std::unexpected(policy::invalid_at(*at, compiled.error().message).error().within(file));
  }
  (void)TRY(control::Blocklist::compile(patterns));
  return {};
}

Result<policy::Settings> effective(const std::string& file, bool file_only) {
  policy::Settings settings;
  std::string text;
  if (!file.empty()) {
    text = TRY(sys::read_small(AT_FDCWD, file, policy::kCapabilityBytesMax));
    settings = TRY(policy::parse_settings(text, file));
  }
  if (!file_only) {
    std::vector<std::string> variables;
    for (char** at = environ; *at != nullptr; ++at) variables.emplace_back(*at);
    TRY(policy::apply_environment(settings, variables));
  }
  TRY(policy::check_settings(settings));
  TRY(check_blocklist(settings.sandbox.command_blocklist, text, file));
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
