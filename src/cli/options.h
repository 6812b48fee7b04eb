// cli/options.h — parsing one command's options: a mistake is one line on standard error and exit
// status 2.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>

namespace caisson::cli {

// Parses `args` (its own name first). An exit status when there is nothing left to do: help was
// printed, or the words were wrong.
[[nodiscard]] std::optional<int> parse(CLI::App& app, std::span<char*> args);

// "caisson NAME: message" on standard error.
void complain(const std::string& command, const std::string& message);

}  // namespace caisson::cli
