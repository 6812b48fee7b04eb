#include "engine/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <set>

#include "engine/gate.h"
#include "engine/native/landlock_rules.h"
#include "engine/seccomp/filter.h"
#include "policy/json_text.h"

namespace caisson::engine {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;
constexpr std::uint64_t kDiskBytesFloor = 4 * kMiB;

// The private layer lives in memory: half of the limit leaves the other half for the processes.
std::uint64_t disk_for(std::uint64_t memory_bytes) {
  return std::max(memory_bytes / 2, kDiskBytesFloor);
}

Result<void> need(bool present, std::string_view what, std::string_view remedy) {
  if (present) return {};
  return failure(Errc::Unsupported, fmt::format("{} is missing on this host: {}", what, remedy));
}

Result<void> check_host(const HostFeatures& host) {
  TRY(need(host.kernel >= KernelVersion{5, 19}, "Linux 5.19 or newer",
           "idmapped layers of an overlay need it"));
  TRY(need(host.user_namespaces, "permission to make user namespaces",
           "set user.max_user_namespaces above 0 and kernel.unprivileged_userns_clone or AppArmor "
           "accordingly"));
  TRY(need(host.seccomp_filter, "seccomp", "the kernel needs CONFIG_SECCOMP_FILTER"));
  TRY(need(host.landlock_abi >= kLandlockAbiMin, "Landlock",
           "boot with lsm=landlock,… in the kernel's list"));
  TRY(need(host.overlay, "overlayfs", "load it: modprobe overlay"));
  if (host.privileged) {
    TRY(need(!host.cgroup_v2_root.empty() && host.cgroup_kill(),
             "the unified control group hierarchy with cgroup.kill",
             "mount cgroup2 (Linux 5.14 or newer)"));
  }
  return {};
}

class Planner {
 public:
  Planner(const SandboxSpec& spec, const HostFeatures& host) : spec_(spec), host_(host) {
    plan_.request = spec.request;
  }

  Result<Plan> run() {
    TRY(check_tier());
    TRY(check(plan_.request));
    TRY(check_host(host_));
    choose_groups();
    TRY(limit_memory());
    limit_processes();
    TRY(limit_cpu());
    TRY(limit_cpu_time());
    limit_disk();
    choose_ids();
    TRY(choose_root());
    TRY(choose_network());
    say("seccomp",
        "filter " + seccomp::fingerprint(seccomp::compile(plan_.request.profile)) +
            (seccomp::has(plan_.request.profile, seccomp::Profile::NoSpawn) ? ", no new processes"
                                                                            : ""));
    say("landlock", spec_.tier == policy::SandboxTier::Native
                        ? fmt::format("ABI {}", host_.landlock_abi)
                        : "none: that kernel has none; what the tenants may call, it judges");
    describe_files();
    return std::move(plan_);
  }

 private:
  void say(std::string what, std::string how) {
    plan_.mechanisms.emplace_back(std::move(what), std::move(how));
  }

  Result<void> check_tier() {
    plan_.request.tier = spec_.tier;
    const std::string_view name = policy::to_string(spec_.tier);
    if (spec_.tier == policy::SandboxTier::Native) {
      say("tier", "native");
      return {};
    }
    if (!host_.privileged) {
      return failure(Errc::Unsupported,
                     fmt::format("sandbox_tier (--tier): '{}' needs a launcher that was started by "
                                 "root",
                                 name));
    }
    if (spec_.tier == policy::SandboxTier::Microvm) {
      if (host_.qemu.empty()) {
        return failure(Errc::Unsupported,
                       "sandbox_tier (--tier): 'microvm' needs QEMU, which is not installed here; "
                       "install the package qemu-system-x86");
      }
      say("tier", fmt::format("microvm: a machine of its own, by {}, emulated", host_.qemu));
      return {};
    }
    if (host_.runsc.empty()) {
      return failure(Errc::Unsupported,
                     "sandbox_tier (--tier): 'gvisor' needs runsc, which is not installed here; "
                     "install the package runsc");
    }
    say("tier", fmt::format("gvisor: a kernel of its own, by {}", host_.runsc));
    return {};
  }

  // The gate's sockets stand on lo, too. Who may not load programs into the kernel has a listener
  // for each port that the rules name, and there are not many of those.
  Result<void> choose_network() {
    if (spec_.egress.empty() && !spec_.gateway && !spec_.ports_inside) {
      say("network", "own namespace, nothing but lo");
      return {};
    }
    plan_.request.gate = true;
    say("network", fmt::format("own namespace, nothing but lo and the gate on it: {} rule{}",
                               spec_.egress.size(), spec_.egress.size() == 1 ? "" : "s"));
    plan_.request.gate_ports = spec_.ports_inside ? *spec_.ports_inside : gate_ports(spec_.egress);
    const bool every = std::ranges::any_of(
        spec_.egress, [](const policy::NetworkEgressRule& rule) { return rule.ports.empty(); });
    if (host_.privileged || (!every && plan_.request.gate_ports.size() < kGatePortsMax)) return {};
    plan_.notes.push_back(fmt::format(
        "programs that ignore the proxy's variables reach only the ports {}: more needs root",
        fmt::join(plan_.request.gate_ports, ", ")));
    return {};
  }

  // Membership, freeze and kill: v2 always. Limits: v2 where it has the controllers, else v1.
  void choose_groups() {
    grouped_ = host_.privileged ? !host_.cgroup_v2_root.empty() : host_.own_v2_delegated;
    say("groups", !grouped_          ? "none: processes end with their pid namespace"
                  : host_.privileged ? "v2 " + host_.cgroup_v2_root
                                     : "v2, delegated: " + host_.own_v2_group);
    if (!grouped_)
      plan_.notes.emplace_back("no control group can be made here: the sandbox cannot be frozen");
  }

  [[nodiscard]] std::string controller(const std::string& name) const {
    if (!grouped_) return "";
    if (host_.v2_controllers.contains(name)) return "v2 " + name;
    if (host_.privileged && host_.cgroup_v1.contains(name)) return "v1 " + name;
    return "";
  }

  // Left out when it was only a default; refused when somebody declared it.
  template <class T>
  Result<void> leave_out(T& limit, bool declared, std::string_view field, std::string_view needs) {
    if (limit == 0) return {};
    if (declared) {
      return failure(
          Errc::Unsupported,
          fmt::format(
              "{}: cannot be enforced here, it needs {}. Run as root, or in a delegated group: "
              "systemd-run --user --scope -p Delegate=yes caisson run …",
              field, needs));
    }
    limit = 0;
    plan_.notes.push_back(fmt::format("{} is not limited: that needs {}", field, needs));
    return {};
  }

  Result<void> limit_memory() {
    auto& limit = plan_.request.limits.memory_bytes;
    const std::string by = controller("memory");
    if (by.empty())
      return leave_out(limit, spec_.declared.memory, "memory", "the memory controller");
    if (limit != 0) say("memory", fmt::format("{} bytes, no swap: {}", limit, by));
    return {};
  }

  // Always possible: without the controller the kernel counts per id of the user namespace.
  void limit_processes() {
    const std::uint32_t limit = plan_.request.limits.processes;
    if (limit == 0) return;
    const std::string by = controller("pids");
    if (spec_.tier != policy::SandboxTier::Native) {
      say("processes",
          fmt::format("{}: RLIMIT_NPROC of each user in the sandbox's own kernel", limit));
      return;
    }
    say("processes",
        fmt::format("{}: {}", limit, by.empty() ? "RLIMIT_NPROC of the user namespace" : by));
  }

  Result<void> limit_cpu() {
    auto& limit = plan_.request.limits.cpu_millis;
    const std::string by = controller("cpu");
    if (by.empty()) return leave_out(limit, spec_.declared.cpu, "cpus", "the cpu controller");
    if (limit != 0) say("cpus", fmt::format("{:.3f} cores: {}", limit / 1000.0, by));
    return {};
  }

  Result<void> limit_cpu_time() {
    auto& limit = plan_.request.limits.cpu_time_us;
    if (!grouped_)
      return leave_out(limit, spec_.declared.cpu_time, "cpu_seconds", "a control group of our own");
    if (limit != 0)
      say("cpu_seconds",
          fmt::format("{:.3f} s of the whole tree: v2 cpu.stat", static_cast<double>(limit) / 1e6));
    return {};
  }

  void limit_disk() {
    const Limits& limits = plan_.request.limits;
    if (plan_.request.storage == Storage::Memory) {
      say("disk", fmt::format("{} bytes, {} files in all: private tmpfs", limits.disk_bytes,
                              limits.disk_files));
      return;
    }
    say("disk", fmt::format("{} bytes since the last snapshot: btrfs", limits.disk_bytes));
    plan_.notes.emplace_back(
        "files on disk are bounded by the bytes they take, and not counted one by one");
  }

  void choose_ids() {
    if (host_.privileged) {
      say("ids", "a slot of 65536, idmapped store");
    } else if (host_.sub_ids) {
      say("ids", fmt::format("the guest's user is you, all others are your sub-ids {} to {}",
                             host_.sub_ids->uid.start, host_.sub_ids->uid.start + kIdsPerSlot - 1));
      plan_.notes.emplace_back(
          "rootless: the guest runs under your own id, and sandboxes of one user share his "
          "sub-ids");
    } else {
      say("ids", "one: your own");
      plan_.notes.emplace_back(
          "rootless without sub-ids (see /etc/subuid): init and the guest run under your own id");
    }
  }

  // Without a slot of ids there is nobody over whom root could have power but the caller himself.
  Result<void> choose_root() {
    bool& wanted = plan_.request.root_capabilities;
    if (!wanted) return {};
    if (host_.privileged) {
      say("capabilities",
          "root may act for the other ids inside: chown dac_override fowner fsetid setuid setgid "
          "setfcap kill net_bind_service");
      return {};
    }
    if (spec_.declared.root_capabilities) {
      return failure(Errc::Unsupported,
                     "root_capabilities: cannot be had rootless, they need a slot of ids. Run as "
                     "root, or leave them out");
    }
    wanted = false;
    plan_.notes.emplace_back("root inside has no capability: that needs a slot of ids");
    return {};
  }

  void describe_files() {
    const LaunchRequest& request = plan_.request;
    say("user", fmt::format("{}:{}", request.uid, request.gid));
    const std::string below = request.stack.layers.empty()
                                  ? std::string("host image")
                                  : fmt::format("{} layer{}{}", request.stack.layers.size(),
                                                request.stack.layers.size() == 1 ? "" : "s",
                                                request.stack.host ? " on the host image" : "");
    say("root",
        below + (request.root == RootMode::Writable ? ", private writable layer" : ", read-only"));
    say("scratch", request.scratch == ScratchMode::Writable || request.root == RootMode::Writable
                       ? "/tmp, /run, /dev/shm: private, writable"
                       : "/tmp, /run, /dev/shm: empty, read-only");
    for (const Folder& folder : request.folders) {
      say("folder",
          folder.at + (folder.mode == FolderMode::PrivateCopy
                           ? ": private copy, changes are discarded"
                       : folder.mode == FolderMode::Writable ? ": the host's own, writable"
                                                             : ": read-only"));
    }
    for (const std::string& path : request.writable) say("writable", path + ": private");
    for (const Alias& alias : request.aliases) say("alias", alias.at + ": " + alias.of);
  }

  const SandboxSpec& spec_;
  const HostFeatures& host_;
  Plan plan_;
  bool grouped_ = false;
};

}  // namespace

SandboxSpec spec_of(const policy::CapabilityDeclaration& capability) {
  SandboxSpec spec;
  spec.tier = capability.sandbox_tier;
  spec.egress = capability.network_egress_rules;
  spec.declared = {.memory = true, .cpu = false, .cpu_time = true};
  LaunchRequest& request = spec.request;
  request.limits.memory_bytes =
      static_cast<std::uint64_t>(capability.resource_limits.max_memory_mb) * kMiB;
  // Rounded up: a limit below a microsecond must not become 0, which is none.
  request.limits.cpu_time_us =
      static_cast<std::uint64_t>(std::ceil(capability.resource_limits.max_cpu_seconds * 1e6));
  request.limits.processes = kProcessesDefault;
  request.limits.disk_bytes = disk_for(request.limits.memory_bytes);
  if (!capability.has(policy::Permission::SpawnSubprocess))
    request.profile = seccomp::Profile::NoSpawn;
  request.scratch = ScratchMode::ReadOnly;
  request.workspace = WorkspaceMode::ReadOnly;
  if (capability.filesystem_config.mode == policy::FilesystemMode::ReadWrite &&
      capability.filesystem_config.writable_paths.empty()) {
    // "Everywhere" is what root's files are: the guest gets the slot's root, without a capability.
    request.root = RootMode::Writable;
    request.scratch = ScratchMode::Writable;
    request.workspace = WorkspaceMode::Writable;
    request.uid = 0;
    request.gid = 0;
  }
  return spec;
}

SandboxSpec default_spec() {
  SandboxSpec spec;
  const policy::ResourceLimits usual;
  spec.request.limits.memory_bytes = static_cast<std::uint64_t>(usual.max_memory_mb) * kMiB;
  spec.request.limits.processes = kProcessesDefault;
  spec.request.limits.disk_bytes = disk_for(spec.request.limits.memory_bytes);
  return spec;
}

std::vector<std::uint16_t> gate_ports(const std::vector<policy::NetworkEgressRule>& rules) {
  std::set<std::uint16_t> ports;
  for (const policy::NetworkEgressRule& rule : rules) {
    if (rule.ports.empty()) ports.insert({22, 80, 443});
    ports.insert(rule.ports.begin(), rule.ports.end());
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min(ports.size(), kGatePortsMax));
  return {ports.begin(), std::next(ports.begin(), count)};
}

std::vector<std::string> tiers_of(const HostFeatures& host, bool has_machine_kernel) {
  std::vector<std::string> tiers{std::string(tier_name(policy::SandboxTier::Native))};
  if (!host.runsc.empty()) tiers.emplace_back(tier_name(policy::SandboxTier::Gvisor));
  if (!host.qemu.empty() && has_machine_kernel)
    tiers.emplace_back(tier_name(policy::SandboxTier::Microvm));
  return tiers;
}

Result<Plan> plan(const SandboxSpec& spec, const HostFeatures& host) {
  return Planner(spec, host).run();
}

std::string to_text(const Plan& plan) {
  std::string out;
  for (const auto& [what, how] : plan.mechanisms) out += fmt::format("{:<12} {}\n", what, how);
  const bool native = plan.request.tier == policy::SandboxTier::Native;
  const auto rules = native ? native::landlock_rules(plan.request) : std::vector<native::Rule>{};
  for (const native::Rule& rule : rules) {
    const char* access = rule.access == wire::Access::Read    ? "read"
                         : rule.access == wire::Access::Write ? "write"
                                                              : "device";
    out += fmt::format("{:<12} {} {}\n", "landlock", access, rule.path);
  }
  for (const std::string& note : plan.notes) out += fmt::format("{:<12} {}\n", "note", note);
  return out;
}

std::string to_json(const Plan& plan) {
  boost::json::array mechanisms;
  for (const auto& [what, how] : plan.mechanisms)
    mechanisms.push_back({{"what", what}, {"how", how}});
  boost::json::array notes;
  for (const std::string& note : plan.notes) notes.push_back(boost::json::string(note));
  return policy::json_text(
      boost::json::object{{"id", plan.request.id}, {"mechanisms", mechanisms}, {"notes", notes}});
}

}  // namespace caisson::engine
