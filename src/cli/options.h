// cli/options.h — parsing one command's options: a mistake is one line on standard error and exit
// status 2.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace caisson::cli {

// Parses `args` (its own name first). An exit status when there is nothing left to do: help was
// printed, or the words were wrong.
[[nodiscard]] std::optional<int> parse(CLI::App& app, std::span<char*> args);

// While one lives, parse() shows it each command's options and ends the command at once. So a list
// of all flags comes from the commands themselves and cannot fall behind them.
class Witness {
 public:
  explicit Witness(std::function<void(const CLI::App&)> see);
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness();
};

// "caisson NAME: message" on standard error.
void complain(const std::string& command, const std::string& message);

}  // namespace caisson::cli
