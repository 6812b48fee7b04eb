#include "engine/native/tier.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <utility>

#include "engine/native/devices.h"
#include "engine/native/gate_sockets.h"
#include "engine/native/landlock_rules.h"
#include "engine/native/low_descriptors.h"
#include "engine/native/skeleton.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/raw.h"
#include "sys/socket.h"

namespace caisson::engine::native {
namespace {

constexpr std::size_t kChildStack = std::size_t{64} * 1024;
// Before it the pid and network namespaces keep signals and abstract sockets in, alone.
constexpr int kLandlockScopesAbi = 6;

// What init keeps, in its own user namespace: to become the tenant, to signal and reap it, to hand
// it files. The last three it only passes on, to the root of an image (kConfigRootCapabilities).
constexpr std::uint64_t kInitCapabilities =
    (1ULL << CAP_SETUID) | (1ULL << CAP_SETGID) | (1ULL << CAP_KILL) | (1ULL << CAP_CHOWN) |
    (1ULL << CAP_DAC_OVERRIDE) | (1ULL << CAP_FOWNER) | (1ULL << CAP_FSETID) |
    (1ULL << CAP_SETFCAP) | (1ULL << CAP_NET_BIND_SERVICE);

constexpr const char* kReadOnly[] = {"bus",           "fs",   "irq", "pressure", "sys",
                                     "sysrq-trigger", nullptr};

// No handler of ours may run in the child: it shares our memory.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

void append(std::vector<std::byte>& out, const void* bytes, std::size_t size) {
  const auto* begin = static_cast<const std::byte*>(bytes);
  out.insert(out.end(), begin, begin + size);
}

}  // namespace

// ----------------------------------------------------------------------------------------------
// once per launcher

Result<std::unique_ptr<NativeTier>> NativeTier::open(TierOptions options) {
  std::unique_ptr<NativeTier> tier(new NativeTier(std::move(options)));
  TRY_IN("state directory " + tier->options_.state_dir, tier->open_state());
  tier->group_roots_ = TRY_IN("control groups", GroupRoots::open(tier->host()));
  if (tier->options_.lifetime == Lifetime::Service)
    TRY_IN("what a killed launcher left", tier->supply_.sweep());
  tier->stack_ = std::make_unique_for_overwrite<std::byte[]>(kChildStack);
  if (tier->options_.lifetime == Lifetime::Service || tier->trimmed()) {
    TRY(tier->need_image());
    TRY(tier->need_devices());
    TRY(tier->need_parts());
  }
  if (tier->trimmed()) TRY_IN("own mount namespace", tier->trim());
  return tier;
}

Result<void> NativeTier::open_state() {
  const auto clean_up = [this](const std::string& id) {
    return Groups::remove_leftover(group_roots_, id);
  };
  state_ = TRY(open_state_dir(options_.state_dir, host().privileged));
  return supply_.open(state_.get(), clean_up);
}

Result<void> NativeTier::need_image() {
  if (image_) return {};
  std::optional<std::uint32_t> owner;
  if (host().privileged) owner = kStoreBase;
  HostImage image;
  image.skeleton = TRY(ensure_host_skeleton(state_.get(), owner));
  if (options_.lifetime == Lifetime::Service)
    image.seam = TRY(ensure_image_seam(state_.get(), owner));
  image.system_folders = host_system_folders();
  image_ = std::move(image);
  return {};
}

// These when they are needed: a head start may still be at it.
Result<int> NativeTier::need_devices() {
  if (devices_) return devices_.get();
  UniqueFd made;
  if (options_.head_start) {
    if (auto early = options_.head_start->devices()) made = std::move(*early);
  }
  if (!made) made = TRY_IN("/dev of sandboxes", make_device_folder(host().privileged));
  devices_ = TRY(sys::park(std::move(made)));
  return devices_.get();
}

Result<void> NativeTier::need_parts() {
  if (parts_) return {};
  if (options_.head_start) {
    if (auto made = options_.head_start->parts()) {
      parts_ = std::move(*made);
      return {};
    }
  }
  HostFiles files = TRY(open_host_files());
  parts_ = TRY(make_host_parts(std::move(files)));
  return {};
}

Result<void> NativeTier::trim() {
  UniqueFd home = TRY(sys::open_at(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY));
  home_mounts_ = TRY(sys::park(std::move(home)));
  sys::TrimmedView view;
  view.kept = image_->system_folders;
  view.kept.push_back("/proc");
  view.kept.push_back(options_.state_dir);
  view.empty = {sys::PendingNamespace::kEmptyFolder, Stage::kFolder};
  TRY(sys::trim_mount_namespace(view));
  UniqueFd own = TRY(sys::open_at(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY));
  own_mounts_ = TRY(sys::park(std::move(own)));
  // Descriptors from before still belong to the host's mounts: take the state directory's twin in
  // here.
  UniqueFd state = TRY(sys::open_at(AT_FDCWD, options_.state_dir, O_RDONLY | O_DIRECTORY));
  state_ = TRY(sys::park(std::move(state)));
  TRY(stage_.attach(devices_.get()));
  return {};
}

NativeTier::~NativeTier() {
  guardian_.reset();
  supply_.close();
}

const seccomp::Filter& NativeTier::filter(seccomp::Profile profile) {
  auto [at, fresh] = filters_.try_emplace(profile);
  if (fresh) at->second = seccomp::compile(profile);
  return at->second;
}

// ----------------------------------------------------------------------------------------------
// launch

Result<void> NativeTier::prepare(const LaunchRequest& request,
                                 const std::vector<UniqueFd>& folders) {
  return supply_.prepare(request, folders, options_.head_start != nullptr);
}

std::uint32_t NativeTier::native_flags(const LaunchRequest& request, const Slot& slot,
                                       ConfigFlags flags) const {
  return wire::kConfigRaiseOomScore | (host().landlock_abi > 0 ? wire::kConfigLandlock : 0U) |
         (request.scope_sockets && host().landlock_abi >= kLandlockScopesAbi
              ? wire::kConfigScopeSockets
              : 0U) |
         (flags.groups ? wire::kConfigGroups : 0U) | (flags.oom ? wire::kConfigOom : 0U) |
         (slot.ids.single() ? wire::kConfigSingleId : 0U) |
         (enters_root() ? wire::kConfigBase : 0U) |
         (request.root_capabilities ? wire::kConfigRootCapabilities : 0U);
}

namespace {

// A machine's kernel is a Linux with everything that init can use: see guest/boot.
bool has_own_linux(const LaunchRequest& request) {
  return request.tier == policy::SandboxTier::Microvm;
}

// What this host's kernel has says nothing about the one that runs that init.
std::uint32_t carried_flags(const LaunchRequest& request) {
  return (has_own_linux(request) ? wire::kConfigLandlock | wire::kConfigGroups | wire::kConfigOom |
                                       wire::kConfigRaiseOomScore
                                 : 0U) |
         (request.gate ? wire::kConfigCarryNetwork : 0U) |
         (request.root_capabilities ? wire::kConfigRootCapabilities : 0U);
}

// Where init listens for every address of the way out, beside the gate's own.
std::vector<std::uint16_t> carried_ports(const LaunchRequest& request) {
  return request.gate ? request.gate_ports : std::vector<std::uint16_t>{};
}

}  // namespace

Result<void> NativeTier::send_config(wire::ControlKind kind, int control,
                                     const LaunchRequest& request, const Slot& slot,
                                     const Nonce& nonce, ConfigFlags flags) {
  const seccomp::Filter& program = filter(request.profile);
  const bool walled = !flags.carried || has_own_linux(request);
  const auto rules = walled ? landlock_rules(request) : std::vector<Rule>{};
  const auto ports = flags.carried ? carried_ports(request) : std::vector<std::uint16_t>{};
  wire::InitConfig config{};
  config.flags = flags.carried ? carried_flags(request) : native_flags(request, slot, flags);
  config.filter_count = static_cast<std::uint32_t>(program.size());
  config.rule_count = static_cast<std::uint32_t>(rules.size());
  config.port_count = static_cast<std::uint32_t>(ports.size());
  config.proxy_port = flags.carried ? request.gate_proxy : std::uint16_t{0};
  config.open_files = request.limits.open_files;
  // Without the controller the kernel counts processes per id of the user namespace instead.
  // And the tasks of another kernel are not ours to count.
  const bool counted = flags.carried ? has_own_linux(request) : group_roots_.has(Controller::Pids);
  config.processes = counted ? 0 : request.limits.processes;
  std::memcpy(config.nonce, nonce.data(), nonce.size());
  std::vector<std::byte> message;
  const wire::ControlHeader header{wire::kVersion, static_cast<std::uint32_t>(kind)};
  append(message, &header, sizeof(header));
  append(message, &config, sizeof(config));
  append(message, program.data(), program.size() * sizeof(sock_filter));
  for (const Rule& rule : rules) {
    const wire::LandlockRule head{static_cast<std::uint32_t>(rule.access),
                                  static_cast<std::uint32_t>(rule.path.size())};
    append(message, &head, sizeof(head));
    append(message, rule.path.data(), rule.path.size());
  }
  append(message, ports.data(), ports.size() * sizeof(ports.front()));
  if (message.size() > wire::kControlMax)
    return failure(Errc::Exhausted, "init's configuration is longer than 64 KiB");
  return sys::send_message(control, message, {});
}

// What does not depend on this launch's descriptors.
ChildPlan NativeTier::child_plan(const LaunchRequest& request, const Slot& slot) const {
  ChildPlan plan;
  const bool empty = Supply::empty_mounts(host());
  plan.place = empty || trimmed() ? sys::PendingNamespace::kEmptyFolder : "/usr";
  plan.masks = parts_->masks.data();
  plan.mask_count = parts_->masks.size();
  plan.read_only = kReadOnly;
  plan.root_switch = enters_root() ? RootSwitch::Enter : RootSwitch::Pivot;
  plan.kept = !empty && trimmed() ? sys::TrimmedView::kHolder : nullptr;
  const std::string& hostname = request.hostname.empty() ? request.id : request.hostname;
  plan.hostname = hostname.c_str();
  plan.hostname_size = hostname.size();
  plan.capabilities = kInitCapabilities;
  plan.single_id = slot.ids.single();
  plan.init_uid = slot.ids.single() ? slot.ids.tenant_uid : kInitId;
  plan.init_gid = slot.ids.single() ? slot.ids.tenant_gid : kInitId;
  return plan;
}

Result<sys::Child> NativeTier::clone_child(ChildPlan& plan) {
  char name[] = "caisson-init";
  char* argv[] = {name, nullptr};
  char* envp[] = {nullptr};
  if (plan.argv == nullptr) {
    plan.argv = argv;
    plan.envp = envp;
  }
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags =
      CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_PIDFD | CLONE_NEWUTS |
      (plan.descriptors == nullptr ? CLONE_NEWPID : 0U) | (plan.ipc < 0 ? CLONE_NEWIPC : 0U) |
      (plan.mount_namespace < 0 ? CLONE_NEWNS : 0U) | (plan.group >= 0 ? CLONE_INTO_CGROUP : 0U);
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  arguments.stack = reinterpret_cast<std::uint64_t>(stack_.get());
  arguments.stack_size = kChildStack;
  arguments.cgroup = static_cast<std::uint64_t>(plan.group >= 0 ? plan.group : 0);
  long pid = -1;
  int reason = 0;
  {
    const SignalsBlocked blocked;
    pid = sys::raw::clone3_on_stack(arguments, child_main, &plan);
    reason = errno;
  }
  if (pid < 0) return sys_failure("clone", reason);
  UniqueFd low(pidfd);
  sys::Child child = sys::Child::adopt(static_cast<pid_t>(pid), TRY(sys::park(std::move(low))));
  if (plan.failed == ChildStep::None) return child;
  TRY(child.wait());
  std::string what = to_string(plan.failed);
  if (plan.detail != nullptr) what += std::string(" (") + plan.detail + ")";
  return sys_failure(what, plan.sys_errno);
}

// The groups of a launch, made by the head start's thread where there is one.
class PendingGroups {
 public:
  using Make = std::function<Result<Groups>()>;

  PendingGroups(HeadStart* head_start, Make make)
      : head_start_(head_start), make_(std::move(make)) {
    if (head_start_ == nullptr) return;
    head_start_->send([this]() -> Result<void> {
      groups_ = TRY(make_());
      return {};
    });
  }
  PendingGroups(const PendingGroups&) = delete;
  PendingGroups& operator=(const PendingGroups&) = delete;
  ~PendingGroups() {
    if (head_start_ != nullptr) (void)head_start_->done();
  }

  [[nodiscard]] Result<Groups> take() {
    if (head_start_ == nullptr) return make_();
    TRY(std::exchange(head_start_, nullptr)->done());
    return std::move(*groups_);
  }

 private:
  HeadStart* head_start_;  // until it is done
  Make make_;
  std::optional<Groups> groups_;
};

Result<Groups> NativeTier::make_groups(const SandboxId& id, const LaunchRequest& request,
                                       const IdPlan& ids, std::uint32_t slot) {
  Groups groups = TRY_IN("control group", Groups::create(group_roots_, id, ids.host_uid(kInitId)));
  TRY_IN("limits", groups.set_limits(host_limits(request.tier, request.limits)));
  if (options_.lifetime == Lifetime::OneShot)
    guardian_ = TRY(Guardian::start(group_roots_, id.str(), {supply_.table(), slot}));
  return groups;
}

Result<Launched> NativeTier::launch_in(Slot& slot, PendingGroups& pending, const SandboxId& id,
                                       const LaunchRequest& request,
                                       const std::vector<UniqueFd>& folders, GuestEnd end) {
  const Stage::Scope staged(stage_);
  const RootfsSources sources = rootfs_sources();
  std::optional<Rootfs> inside;
  Rootfs rootfs;
  if (request.tier == policy::SandboxTier::Native) {
    rootfs = TRY(build_rootfs(request, slot, folders, sources));
  } else {
    CarriedTier* tier = TRY(carried(request.tier));
    inside = TRY(tier->files({request, slot, folders, sources}));
    rootfs = TRY(carrier_root());
    rootfs.layer = std::move(inside->layer);
    rootfs.spent = std::move(inside->spent);
  }
  sys::SocketPair control = TRY(sys::packet_pair());
  UniqueFd ours;
  if (!end.stream) {
    sys::SocketPair stream = TRY(sys::stream_pair());
    ours = std::move(stream.ours);
    end.stream = std::move(stream.theirs);
    TRY(sys::random_bytes(end.nonce));
  }
  sys::SocketPair carried;
  if (is_carried(request)) carried = TRY(sys::stream_pair());
  Groups groups = TRY(pending.take());
  const UniqueFd group = TRY(groups.open_v2());
  const UniqueFd oom = TRY(groups.open_oom_counter());
  const std::vector<UniqueFd> tasks = TRY(groups.open_tasks());
  TRY(send_config(wire::ControlKind::Config, control.ours.get(), request, slot, end.nonce,
                  {static_cast<bool>(group), static_cast<bool>(oom), is_carried(request)}));
  if (options_.head_start) {
    if (auto made = options_.head_start->surroundings()) supply_.add_surroundings(std::move(*made));
  }
  const Supply::Around around = TRY(supply_.surroundings());
  TRY(need_parts());
  GateSockets gate;
  if (request.gate) {
    gate =
        TRY_IN("the way out", open_gate_in(around.network, request.gate_ports, request.gate_proxy));
  }

  LowDescriptors low;
  std::vector<int> task_numbers;
  task_numbers.reserve(tasks.size());
  for (const UniqueFd& file : tasks) task_numbers.push_back(TRY(low.lift(file.get())));
  std::vector<ChildMount> mounts;
  mounts.reserve(rootfs.mounts.size());
  for (const Mounted& mounted : rootfs.mounts) {
    mounts.push_back({TRY(low.lift(mounted.mount.get())), mounted.target.c_str()});
  }
  ChildPlan plan = child_plan(request, slot);
  plan.tasks = task_numbers.data();
  plan.task_count = task_numbers.size();
  plan.mounts = mounts.data();
  plan.mount_count = mounts.size();
  plan.network = TRY(low.lift(around.network));
  plan.mount_namespace = TRY(low.lift(around.mounts));
  plan.ipc = TRY(low.lift(around.ipc));
  plan.root = TRY(low.lift(rootfs.root.get()));
  plan.user_namespace = TRY(low.lift(slot.user_namespace.get()));
  const Program run = is_carried(request) ? Program::Carrier : request.program;
  const int started = TRY(program(run));
  plan.init = TRY(low.lift(started));
  plan.null = TRY(low.lift(parts_->null.get()));
  plan.control = TRY(low.lift(control.theirs.get()));
  plan.stream = TRY(low.lift(end.stream.get()));
  plan.group = TRY(low.lift(group.get()));
  // What works on layers or carries starts nobody, and its input is hostile: it gets its sockets.
  plan.bare = run != Program::Init;
  plan.carried = TRY(low.lift(carried.ours.get()));
  plan.oom = TRY(low.lift(oom.get()));
  sys::Child init = TRY(clone_child(plan));
  UniqueFd layer = TRY(sys::park(std::move(rootfs.layer)));
  if (options_.lifetime == Lifetime::OneShot) rootfs.spent.push_back(std::move(layer));
  for (UniqueFd& one : rootfs.spent) one = TRY(sys::park(std::move(one)));
  supply_.spend(std::move(rootfs.spent));
  UniqueFd parked = TRY(sys::park(std::move(control.ours)));
  // An init that does not listen, because somebody has frozen it, must not hold up everybody.
  if (::fcntl(parked.get(), F_SETFL, O_RDWR | O_NONBLOCK) != 0)
    return sys_failure("init's control socket", errno);
  Launched launched{Sandbox(id, std::move(slot), std::move(groups), std::move(parked),
                            std::move(init), end.nonce),
                    std::move(ours), std::move(carried.theirs), std::move(gate), std::move(inside)};
  launched.sandbox.keep_layer(std::move(layer));
  return launched;
}

Result<Launched> NativeTier::launch(const LaunchRequest& request, std::vector<UniqueFd> folders,
                                    GuestEnd end) {
  TRY(check(request));
  if (folders.size() != request.folders.size()) {
    return failure(Errc::InvalidArgument, "folders: " + std::to_string(request.folders.size()) +
                                              " named, " + std::to_string(folders.size()) +
                                              " descriptors given");
  }
  const SandboxId id = TRY(SandboxId::parse(request.id));
  if (request.tier != policy::SandboxTier::Native) {
    CarriedTier* tier = TRY(carried(request.tier));
    TRY(tier->facts());
    TRY(tier->check(request));
  }
  if (!request.memory.name.empty() && TRY(memory_runtime(request)) != request.memory.runtime) {
    return failure(Errc::Unsupported,
                   "memory: it was kept with '" + request.memory.runtime +
                       "', which is not what runs here now; start without the processes, from the "
                       "files alone");
  }
  ReservedSlot reserved = TRY_IN("id range", supply_.reserve(request, folders));
  Slot slot;
  slot.index = reserved.slot.index;
  const auto attempt = [&]() -> Result<Launched> {
    TRY(supply_.name(slot.index, id));
    // The groups are made, and the image is looked at, while the slot's namespaces may still be in
    // the making.
    const IdPlan ids = reserved.slot.ids;
    const std::uint32_t index = slot.index;
    PendingGroups groups(options_.head_start.get(),
                         [&, ids, index] { return make_groups(id, request, ids, index); });
    TRY(need_image());
    slot = TRY_IN("id range", supply_.finish(std::move(reserved)));
    TRY(make_places(request));
    auto made = launch_in(slot, groups, id, request, folders, std::move(end));
    if (!made && !request.resume) remove_places(request.id);
    return made;
  };
  auto launched = attempt();
  if (launched && launched->files) {
    const auto started = start_beside(*launched, request);
    if (started) return launched;
    (void)destroy(std::move(launched->sandbox), request.resume ? Files::Keep : Files::Remove);
    return std::unexpected(started.error().within("start sandbox"));
  }
  if (launched) return launched;
  supply_.take_back(std::move(slot));
  return std::unexpected(launched.error().within("start sandbox"));
}

Result<void> NativeTier::destroy(Sandbox sandbox, Files files) {
  const std::string id = sandbox.id().str();
  for (const auto& [kind, tier] : carried_) tier->ended(id);
  (void)supply_.fetch_users(sandbox.slot(), sandbox.init_pid());  // else a new slot is made
  Slot slot = TRY(sandbox.destroy());
  if (guardian_) guardian_->dismiss();
  if (files == Files::Remove) remove_places(id);
  supply_.take_back(std::move(slot));
  return {};
}

}  // namespace caisson::engine::native
