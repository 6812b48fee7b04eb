// What bench/binding compares Python with: the library's own create, exec and destroy, one round
// for each line on standard input, so that the two take turns. Says three numbers a round, in
// microseconds.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "control/sandbox_manager.h"
#include "policy/capability_parser.h"

namespace caisson {
namespace {

double since(TimePoint begin) {
  return static_cast<double>(duration_cast<nanoseconds>(Clock::now() - begin).count()) / 1000;
}

Result<void> round(control::SandboxManager& manager,
                   const policy::CapabilityDeclaration& declared) {
  TimePoint begin = Clock::now();
  const std::string id = TRY(manager.create_sandbox(declared));
  const double create = since(begin);
  begin = Clock::now();
  const auto result = TRY(manager.execute(id, {"/bin/true"}));
  const double exec = since(begin);
  if (result.exit_code != 0) return failure(Errc::Internal, "/bin/true failed: " + result.err);
  begin = Clock::now();
  TRY(manager.destroy(id));
  fmt::print("{} {} {}\n", create, exec, since(begin));
  (void)std::fflush(stdout);
  return {};
}

Result<void> serve(control::SandboxManager::Options options) {
  const auto declared = TRY(policy::CapabilityParser::from_string(""));
  const auto manager = TRY(control::SandboxManager::open(std::move(options)));
  for (std::string line; std::getline(std::cin, line);) TRY(round(*manager, declared));
  return {};
}

}  // namespace
}  // namespace caisson

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: library_rounds PROGRAM STATE_DIR\n");
    return 2;
  }
  const auto served = caisson::serve({argv[1], argv[2], std::nullopt});
  if (served) return 0;
  fmt::print(stderr, "library_rounds: {}\n", served.error().message);
  return 1;
}
