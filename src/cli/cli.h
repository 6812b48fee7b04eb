// cli — the command line. Start at cli.h: main() calls command(), which picks one of the files
// beside this one. Only the command that is asked for builds its options: parsing them all would
// cost more than starting a sandbox. Never here: how a sandbox is made. The commands ask control
// and engine.
#pragma once

#include <span>
#include <string_view>

namespace caisson::cli {

// Exit statuses of ours. A command that ran gives its own: 0 to 255, 128 + N for a signal.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // validate: not valid; doctor: the native tier cannot run
inline constexpr int kExitUsage = 2;
inline constexpr int kExitTimedOut = 124;  // run: --timeout passed
inline constexpr int kExitSandbox = 125;   // run: the sandbox could not be made
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

[[nodiscard]] int command(std::span<char*> arguments);

struct Command {
  std::string_view name;
  std::string_view summary;  // empty: not for people
  int (*run)(std::span<char*>);
};
[[nodiscard]] std::span<const Command> commands();

// args[0] is the command's own name.
[[nodiscard]] int run_command(std::span<char*> args);
[[nodiscard]] int validate_command(std::span<char*> args);
[[nodiscard]] int inspect_command(std::span<char*> args);
[[nodiscard]] int serve_command(std::span<char*> args);
[[nodiscard]] int launcher_command(std::span<char*> args);
[[nodiscard]] int bench_command(std::span<char*> args);
[[nodiscard]] int completion_command(std::span<char*> args);

}  // namespace caisson::cli
