#include "cli/options.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/cli.h"

namespace caisson::cli {

namespace {

std::function<void(const CLI::App&)>& witness() {
  static std::function<void(const CLI::App&)> see;
  return see;
}

}  // namespace

Witness::Witness(std::function<void(const CLI::App&)> see) { witness() = std::move(see); }
Witness::~Witness() { witness() = nullptr; }

std::optional<int> parse(CLI::App& app, std::span<char*> args) {
  app.name(std::string("caisson ") + args[0]);
  app.set_version_flag("--version", "caisson " CAISSON_VERSION);
  if (witness()) {
    witness()(app);
    return kExitOk;
  }
  try {
    app.parse(static_cast<int>(args.size()), args.data());
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return kExitOk;
  } catch (const CLI::CallForVersion&) {
    fmt::print("caisson {}\n", CAISSON_VERSION);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    complain(args[0], std::string(error.what()) + "; see caisson " + args[0] + " --help");
    return kExitUsage;
  }
  return std::nullopt;
}

void complain(const std::string& command, const std::string& message) {
  fmt::print(stderr, "caisson {}: {}\n", command, message);
}

}  // namespace caisson::cli
