#include <fmt/format.h>

#include <cstdio>

#include "cli/cli.h"
#include "cli/options.h"
#include "policy/capability_parser.h"
#include "policy/describe.h"

namespace caisson::cli {

int validate_command(std::span<char*> args) {
  CLI::App app("Checks a capability file. Exit status 0: valid, 1: not.");
  std::string config;
  std::string output = "text";
  app.add_option("--config", config, "the capability file (YAML)")->required()->type_name("FILE");
  app.add_option("--output", output, "text or json")->check(CLI::IsMember({"text", "json"}));
  if (const auto done = parse(app, args)) return *done;
  const auto capability = policy::CapabilityParser::from_file(config);
  const bool json = output == "json";
  if (capability) {
    fmt::print("{}", json ? policy::describe_json(*capability) + "\n"
                          : policy::describe_text(*capability));
    return kExitOk;
  }
  if (json) {
    fmt::print("{}\n", policy::describe_invalid_json(capability.error().message));
  } else {
    fmt::print(stderr, "INVALID\n{}\n", capability.error().message);
  }
  return kExitFailed;
}

}  // namespace caisson::cli
