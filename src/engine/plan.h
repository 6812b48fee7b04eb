// engine/plan.h — what is wished, and what of it this host can hold. Pure: no file, no system call.
// A limit that somebody declared and that cannot be enforced here is refused by name; a default
// that nobody asked for is left out and stated in `notes`. Nothing is weakened in silence.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/host/features.h"
#include "engine/launch_request.h"
#include "policy/capability.h"

namespace caisson::engine {

inline constexpr std::uint32_t kProcessesDefault = 1024;
inline constexpr int kLandlockAbiMin = 1;

// Which wishes must hold. The others are wished for.
struct Declared {
  bool memory = false;
  bool cpu = false;
  bool cpu_time = false;
  bool root_capabilities = false;
};

struct SandboxSpec {
  policy::SandboxTier tier = policy::SandboxTier::Native;
  std::vector<policy::NetworkEgressRule> egress;
  bool gateway = false;  // somebody serves language models on the gate, rules or not
  // Of a guest that goes on: the ports at which its init listens for the way out, rules or not.
  std::optional<std::vector<std::uint16_t>> ports_inside{};
  LaunchRequest request;
  Declared declared;
};

// What a capability asks for, without folders: those are the caller's to open. Every limit of it is
// declared.
[[nodiscard]] SandboxSpec spec_of(const policy::CapabilityDeclaration& capability);

// Safe defaults for a command without a capability: read-only system, private /tmp and /workspace,
// no network.
[[nodiscard]] SandboxSpec default_spec();

// The tiers that a launcher of this host can offer, by our own words.
[[nodiscard]] std::vector<std::string> tiers_of(const HostFeatures& host,
                                                bool has_machine_kernel = false);

// The ports that rules name, for kernels that cannot steer: at most kGatePortsMax, the usual ones
// for a rule that names none.
[[nodiscard]] std::vector<std::uint16_t> gate_ports(
    const std::vector<policy::NetworkEgressRule>& rules);

struct Plan {
  LaunchRequest request;
  std::vector<std::pair<std::string, std::string>>
      mechanisms;                  // what holds, and by which part of the kernel
  std::vector<std::string> notes;  // what is left out, and why
};

[[nodiscard]] Result<Plan> plan(const SandboxSpec& spec, const HostFeatures& host);

[[nodiscard]] std::string to_text(const Plan& plan);
[[nodiscard]] std::string to_json(const Plan& plan);

}  // namespace caisson::engine
