// engine/seccomp/filter.h — the list of system calls a tenant may make, compiled for the kernel.
// Start here: compile(Profile) gives the program init installs in every tenant process. The list
// itself, with the reason of each line, is table.cc; compile.cc turns it into a balanced tree of
// intervals, because the kernel evaluates a new filter once per system call number and the depth of
// the tree is what that costs. Everything here is a pure function. Never here: installing the
// filter, or a decision about a policy.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace caisson::engine::seccomp {

// Flags that combine: Profile::Debug | Profile::NoSpawn. Each names one deviation from the default
// list.
enum class Profile : std::uint32_t {
  Default = 0,
  Debug =
      1U << 0,  // also ptrace and process_vm_*: debuggers, strace, sanitizers that look at siblings
  NoSpawn = 1U << 1,  // no new processes: fork, vfork and clone without CLONE_THREAD are EPERM;
                      // threads still work
};

[[nodiscard]] constexpr Profile operator|(Profile a, Profile b) noexcept {
  return static_cast<Profile>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

[[nodiscard]] constexpr bool has(Profile set, Profile flag) noexcept {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(flag)) != 0;
}

inline constexpr std::uint32_t kInitId = 65535;  // init's own id inside: no tenant may have it

using Filter = std::vector<sock_filter>;

// Far below the kernel's 4096, so that a filter fits one fixed buffer on its way to init. A test
// reaches no further.
inline constexpr std::size_t kFilterInstructionsMax = 256;

// Deterministic: the same profile gives the same bytes in every build for one architecture.
[[nodiscard]] Filter compile(Profile profile);

// Sixteen hex digits that name a filter in the record. It detects a change, it does not prove
// origin: FNV-1a, not a cryptographic hash.
[[nodiscard]] std::string fingerprint(std::span<const sock_filter> filter);

}  // namespace caisson::engine::seccomp
