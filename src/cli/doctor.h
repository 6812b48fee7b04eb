// cli/doctor.h — `caisson doctor`: what this host can hold, and what to do about the rest.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/host/doctor.h"

namespace caisson::cli {

enum class Marks : std::uint8_t { Ascii, Unicode };
enum class Colour : std::uint8_t { Off, On };

// Pure, so that a test can read them.
[[nodiscard]] std::string doctor_text(std::span<const engine::Check> checks, engine::Way native,
                                      Marks marks, Colour colour);
[[nodiscard]] std::string doctor_json(std::span<const engine::Check> checks, engine::Way native,
                                      const engine::HostFeatures& host);

// args[0] is the command's own name. Exit status: 0, or 1 when the native tier cannot run here, or
// 2 for bad usage.
[[nodiscard]] int doctor_command(std::span<char*> args);

}  // namespace caisson::cli
