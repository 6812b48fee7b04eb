// What the kernel of the machine must not offer to the sandbox's programs, and what init takes with
// it. The machine is the wall; this keeps the programs inside from becoming init.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/random.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/boot/boot.h"

namespace caisson::boot {
namespace {

constexpr uint32_t kInitId = 65535;  // as on the host: engine/seccomp/filter.h
constexpr char kGroups[] = "/groups";
constexpr char kGroup[] = "/groups/box";

// To become the tenant, to signal and reap it, to hand it files; to name the machine and reseed its
// generator; to own the addresses of the way out;
// to cut what a tenant could ever get.
constexpr uint64_t kInitCapabilities =
    (1ULL << CAP_SETUID) | (1ULL << CAP_SETGID) | (1ULL << CAP_KILL) | (1ULL << CAP_CHOWN) |
    (1ULL << CAP_DAC_OVERRIDE) | (1ULL << CAP_FOWNER) | (1ULL << CAP_FSETID) |
    (1ULL << CAP_SETFCAP) | (1ULL << CAP_NET_BIND_SERVICE) | (1ULL << CAP_NET_ADMIN) |
    (1ULL << CAP_SETPCAP) | (1ULL << CAP_SYS_ADMIN);

// As the native tier's child covers them.
constexpr const char* kReadOnly[] = {"bus", "fs", "irq", "pressure", "sys", "sysrq-trigger"};
constexpr const char* kMaskedFiles[] = {"interrupts", "kallsyms",      "kcore",       "keys",
                                        "key-users",  "kmsg",          "kpagecgroup", "kpagecount",
                                        "kpageflags", "latency_stats", "sched_debug", "slabinfo",
                                        "timer_list", "timer_stats",   "vmallocinfo"};
constexpr const char* kMaskedFolders[] = {"acpi", "asound", "scsi"};

struct Setting {
  const char* name;
  const char* value;
};
constexpr Setting kSettings[] = {{"user/max_user_namespaces", "0"},
                                 {"user/max_net_namespaces", "0"},
                                 {"kernel/unprivileged_bpf_disabled", "1"},
                                 {"kernel/kptr_restrict", "2"},
                                 {"kernel/dmesg_restrict", "1"},
                                 {"kernel/perf_event_paranoid", "3"},
                                 {"kernel/sysrq", "0"},
                                 {"kernel/core_pattern", ""},
                                 {"kernel/modprobe", ""},
                                 {"kernel/kexec_load_disabled", "1"},
                                 {"fs/protected_hardlinks", "1"},
                                 {"fs/protected_symlinks", "1"},
                                 {"vm/panic_on_oom", "0"},
                                 {"net/ipv4/ip_unprivileged_port_start", "0"},
                                 {"net/ipv4/ping_group_range", "1 0"},
                                 {"kernel/modules_disabled", "1"}};

Text below(const char* folder, const char* name) {
  Text path;
  path.add(folder).add("/").add(name);
  return path;
}

void cover(const char* with, const char* name) {
  const Text target = below("/root/proc", name);
  if (mount(with, target.get(), nullptr, MS_BIND, nullptr) != 0) {
    require(errno == ENOENT, "cover", target.get());
    return;
  }
  require(mount(nullptr, target.get(), nullptr,
                MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC, nullptr) == 0,
          "cover", target.get());
}

}  // namespace

void mix_seed(const uint8_t (&seed)[wire::kBootSeedBytes]) {
  struct {
    int bits;
    int size;
    uint8_t bytes[wire::kBootSeedBytes];
  } entropy{};
  entropy.bits = static_cast<int>(wire::kBootSeedBytes) * 8;
  entropy.size = static_cast<int>(wire::kBootSeedBytes);
  memcpy(entropy.bytes, seed, sizeof(entropy.bytes));
  const int random = open("/dev/urandom", O_RDWR | O_CLOEXEC);
  require(random >= 0 && ioctl(random, RNDADDENTROPY, &entropy) == 0, "seed the generator");
  (void)ioctl(random, RNDRESEEDCRNG);
  close(random);
  explicit_bzero(&entropy, sizeof(entropy));
}

// The same group that init has on the host in the native tier: below it each command gets its own.
Groups make_group(uint32_t processes) {
  require(mount("cgroup2", kGroups, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0,
          "mount", "control groups");
  put_file("/groups/cgroup.subtree_control", "+pids +memory");
  require(mkdir(kGroup, 0755) == 0, "make a control group");
  if (processes != 0) {
    Text number;
    number.add(static_cast<unsigned long>(processes));
    put_file("/groups/box/pids.max", number.get());
  }
  const int procs = open("/groups/box/cgroup.procs", O_WRONLY | O_CLOEXEC);
  require(procs >= 0 && write(procs, "0", 1) == 1, "join a control group");
  close(procs);
  require(chown(kGroup, kInitId, kInitId) == 0 &&
              chown("/groups/box/cgroup.procs", kInitId, kInitId) == 0,
          "own a control group");
  const Groups groups{open(kGroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                      open("/groups/box/memory.events", O_RDONLY | O_CLOEXEC)};
  require(groups.directory >= 0 && groups.events >= 0, "open", kGroup);
  return groups;
}

void bring_up_loopback() {
  const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  require(any >= 0 && ioctl(any, SIOCSIFFLAGS, &request) == 0, "bring up", "lo");
  close(any);
}

void harden_kernel() {
  for (const Setting& setting : kSettings)
    put_file(below("/proc/sys", setting.name).get(), setting.value);
}

void mask_proc() {
  for (const char* name : kReadOnly) {
    const Text path = below("/root/proc", name);
    cover(path.get(), name);
  }
  for (const char* name : kMaskedFiles) cover("/root/dev/null", name);
  for (const char* name : kMaskedFolders) cover("/root/sys", name);
}

void drop_privileges() {
  constexpr int kCapabilityMax = 63;
  for (int capability = 0; capability <= kCapabilityMax; ++capability) {
    if (((kInitCapabilities >> capability) & 1U) != 0) continue;
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    require(errno == EINVAL, "cut the bounding set");
    break;
  }
  require(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0, "keep capabilities");
  require(syscall(SYS_setgroups, 0, nullptr) == 0 &&
              syscall(SYS_setresgid, kInitId, kInitId, kInitId) == 0 &&
              syscall(SYS_setresuid, kInitId, kInitId, kInitId) == 0,
          "take init's ids");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  sets[0].effective = sets[0].permitted = sets[0].inheritable =
      static_cast<uint32_t>(kInitCapabilities);
  sets[1].effective = sets[1].permitted = sets[1].inheritable =
      static_cast<uint32_t>(kInitCapabilities >> 32U);
  require(syscall(SYS_capset, &header, sets) == 0, "drop capabilities");
  for (int capability = 0; capability <= kCapabilityMax; ++capability) {
    if (((kInitCapabilities >> capability) & 1U) == 0) continue;
    require(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) == 0,
            "keep a capability");
  }
  require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "set no_new_privs");
}

}  // namespace caisson::boot
