// engine/gvisor/runsc.h — which runsc this host has, and whether it knows what we ask of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::engine::gvisor {

struct Runsc {
  UniqueFd program;
  std::string version;
  std::string platform;            // "systrap" where it has it, else "ptrace"
  std::vector<std::string> flags;  // for every call
};

// Empty when it is not installed.
[[nodiscard]] std::string find_runsc();

// What it says about itself: `version` and `flags` are the answers to "runsc --version" and "runsc
// flags". Unsupported when it lacks a flag that we cannot go without.
[[nodiscard]] Result<Runsc> judge(std::string_view version, std::string_view flags);

// Asks it, or takes the answer from `memory_dir`, where it stands since this very file was asked.
// -1: nowhere.
[[nodiscard]] Result<Runsc> examine(int memory_dir);

}  // namespace caisson::engine::gvisor
