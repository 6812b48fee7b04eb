// engine/microvm/vm_plan.h — one machine as values, and the monitor's command line made of them.
// Pure and printable: a test reads the words without a monitor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/launch_request.h"

namespace caisson::engine::microvm {

inline constexpr std::uint64_t kMachineMemoryMin = 128ULL << 20U;
inline constexpr std::uint64_t kMachineMemoryMax = 64ULL << 30U;
inline constexpr std::uint32_t kProcessorsMax = 8;
// Of code that an emulated processor has translated.
inline constexpr std::uint32_t kTranslationMib = 64;

enum class Accelerator : std::uint8_t { Emulated, Kvm };
[[nodiscard]] std::string_view to_string(Accelerator accelerator) noexcept;

// Where the monitor finds in its jail what it opens by name.
inline constexpr const char* kJailKernel = "kernel";
inline constexpr const char* kJailInitramfs = "initramfs";
inline constexpr const char* kJailMemory = "memory";  // a folder, and in it
inline constexpr const char* kMemoryFile = "ram";
// And by number what it is handed.
inline constexpr int kFdChannel = 3;
inline constexpr int kFdMonitor = 4;
inline constexpr int kFdImage = 5;  // the root, read-only
inline constexpr int kFdUpper = 6;  // the writable disk
inline constexpr int kFdState = 7;  // Start::Clone: the devices of the machine it is a copy of

// Either way its memory lies in a file of its own, so that it can be copied while it stands still.
enum class Start : std::uint8_t {
  Cold,   // boots a kernel
  Clone,  // goes on where another machine stood
};

struct VmPlan {
  Start start = Start::Cold;
  Accelerator accelerator = Accelerator::Emulated;
  std::uint64_t memory_bytes = kMachineMemoryDefault;  // of the machine: whole MiB
  std::uint32_t processors = 1;
  std::uint32_t clock_khz = 0;  // what the host's time stamp counter counts; 0: the guest finds out

  friend bool operator==(const VmPlan&, const VmPlan&) = default;
};

// What the limits of a sandbox mean for its machine, or why they cannot be had.
[[nodiscard]] Result<VmPlan> plan_machine(const Limits& limits, Accelerator accelerator,
                                          std::uint32_t clock_khz);

// The arguments of QEMU, without its name.
[[nodiscard]] std::vector<std::string> qemu_arguments(const VmPlan& plan);
// The command line of the guest's kernel.
[[nodiscard]] std::string kernel_words(const VmPlan& plan);

}  // namespace caisson::engine::microvm
