// engine/microvm/boot_words.h — what a launch request means to caisson-boot, as the bytes of its
// record; and which requests a machine cannot serve. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/launch_request.h"
#include "guest/protocol/boot_record.h"

namespace caisson::engine::microvm {

using BootSeed = std::array<std::byte, wire::kBootSeedBytes>;

// Unsupported, by name, where the request asks for what a machine does not have.
[[nodiscard]] Result<void> check_machine_request(const LaunchRequest& request);

[[nodiscard]] Result<std::vector<std::byte>> boot_record(const LaunchRequest& request,
                                                         const BootSeed& seed);

}  // namespace caisson::engine::microvm
