#include "engine/microvm/tier.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>
#include <vector>

#include "engine/microvm/boot_words.h"
#include "engine/microvm/disks.h"
#include "engine/microvm/machine.h"
#include "engine/microvm/sha256.h"
#include "engine/native/tier.h"
#include "guest/protocol/protocol.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/namespace.h"
#include "sys/socket.h"

namespace caisson::engine::microvm {
namespace {

// The processor is emulated: this version starts no other machine.
constexpr Accelerator kAccelerator = Accelerator::Emulated;
constexpr const char* kOwnMounts = "/proc/self/ns/mnt";

Result<UniqueFd> no_private_files() {
  return sys::new_mount("tmpfs", {{"mode", "0700"}, {"size", "4k"}, {"nr_inodes", "2"}},
                        sys::kMountNoSuid | sys::kMountNoDev | sys::kMountNoExec);
}

// What of a request is in a machine from its boot on, beside its processors; the rest comes with a
// copy's identity.
Result<std::string> shape_of(const LaunchRequest& request, const VmPlan& plan,
                             const KernelAbout& kernel) {
  LaunchRequest same = request;
  same.hostname = "machine";
  const std::vector<std::byte> record = TRY(boot_record(same, BootSeed{}));
  const std::string rest = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {}", kernel.kernel_sha256, plan.memory_bytes,
      request.limits.disk_bytes, request.limits.disk_files, request.limits.open_files, request.gate,
      request.root_capabilities, static_cast<int>(request.profile),
      fmt::join(request.gate_ports, ","), request.stack.host, fmt::join(request.stack.layers, ","));
  return sha256(record) + sha256(std::as_bytes(std::span(rest)));
}

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// What a template's init hears: a configuration, of which a copy's own replaces what it can, and
// Hold. The walls that init enters for good are those of every machine.
std::vector<std::byte> template_words(const LaunchRequest& request) {
  wire::InitConfig config{};
  config.flags = wire::kConfigLandlock | wire::kConfigGroups | wire::kConfigOom |
                 wire::kConfigRaiseOomScore |
                 (request.root_capabilities ? wire::kConfigRootCapabilities : 0U);
  config.open_files = request.limits.open_files;
  constexpr auto kSize = sizeof(wire::ControlHeader) + sizeof(wire::InitConfig);
  std::vector<std::byte> out;
  append(out, wire::FrameHeader{kSize, static_cast<std::uint16_t>(wire::Kind::Configure), 0, 0});
  append(out, wire::ControlHeader{wire::kVersion,
                                  static_cast<std::uint32_t>(wire::ControlKind::Config)});
  append(out, config);
  append(out, wire::FrameHeader{0, static_cast<std::uint16_t>(wire::Kind::Hold), 0, 0});
  return out;
}

}  // namespace

MicrovmTier::MicrovmTier(std::string state_dir, Patience patience)
    : state_dir_(std::move(state_dir)), patience_(patience) {
  if (patience == Patience::Wait) return;  // of a single run, which stays where it is
  auto home = sys::open_at(AT_FDCWD, kOwnMounts, O_RDONLY);
  if (!home) return;
  if (auto parked = sys::park(std::move(*home))) home_mounts_ = std::move(*parked);
}

// What is missing is looked for again at the next launch: somebody may set it up meanwhile.
Result<void> MicrovmTier::look() {
  if (driver_) return {};
  if (!home_mounts_) {
    driver_ = TRY(qemu_driver().look());
    return {};
  }
  const UniqueFd here = TRY(sys::open_at(AT_FDCWD, kOwnMounts, O_RDONLY));
  const sys::MountNamespaceVisit visit(home_mounts_.get(), here.get());
  if (!visit.inside())
    return caisson::failure(Errc::Internal, "the host's mounts cannot be visited");
  driver_ = TRY(qemu_driver().look());
  return {};
}

Result<void> MicrovmTier::open() {
  TRY(look());
  if (!store_) {
    const UniqueFd state = TRY(sys::open_at(AT_FDCWD, state_dir_, O_RDONLY | O_DIRECTORY));
    store_ = TRY(VmStore::open(state.get()));
  }
  if (!images_) images_ = TRY(ImageShelf::open(store_->folder()));
  return {};
}

Result<TierFacts> MicrovmTier::facts() {
  TRY(open());
  return TierFacts{fmt::format("Linux {} in {} {} ({}{})", store_->about().release, driver_->name,
                               driver_->version, to_string(kAccelerator),
                               kAccelerator == Accelerator::Emulated ? ", emulated" : "")};
}

Result<void> MicrovmTier::check(const LaunchRequest& request) {
  TRY(check_machine_request(request));
  TRY(plan_machine(request.limits, kAccelerator, rate_.khz()));
  return {};
}

Result<native::Rootfs> MicrovmTier::files(const CarriedFiles& wish) {
  TRY(open());
  if (!null_) {
    const int devices = TRY(wish.sources.devices());
    UniqueFd null = TRY(sys::open_at(devices, "null", O_RDWR));
    null_ = TRY(sys::park(std::move(null)));
  }
  const LaunchRequest& request = wish.request;
  Disks disks;
  if (request.memory.name.empty()) {
    disks.name =
        ImageShelf::name_of(request.stack, wish.sources.store.skeleton, wish.sources.store.seam);
    disks.image =
        TRY(images_->image(request.stack, wish.slot, wish.sources, null_.get(), patience_));
    disks.upper = TRY(make_disk(store_->disks(), request.limits.disk_bytes,
                                request.limits.disk_files, null_.get()));
  }
  disks_ = std::move(disks);
  native::Rootfs files;
  files.layer = TRY(no_private_files());
  return files;
}

Result<std::optional<Machine>> MicrovmTier::start_copy(const CarriedPart& part,
                                                       const std::string& kind, MachineParts parts,
                                                       Disks& disks) {
  templates_.tend();
  const Template* from = templates_.find(kind);
  if (from == nullptr) return std::nullopt;
  disks.upper = TRY(copy_disk(store_->disks(), from->upper.get()));
  const UniqueFd devices = TRY(sys::reopen(from->devices.get()));
  parts.plan.start = Start::Clone;
  parts.memory_of = from->memory.get();
  parts.upper = disks.upper.get();
  parts.state = devices.get();
  // Before the machine goes on, so before anybody runs in it: the carrier passes it on first.
  TRY(tell_identity(part.sandbox, part.request));
  return TRY(Machine::start(qemu_driver(), parts));
}

// While nobody waits for it: whoever asks for the same kind next finds it.
void MicrovmTier::make_template(const CarriedPart& part, const std::string& kind,
                                const MachineParts& parts, const Disks& disks) {
  if (patience_ == Patience::Wait || templates_.knows(kind)) return;
  auto upper = make_disk(store_->disks(), part.request.limits.disk_bytes,
                         part.request.limits.disk_files, null_.get());
  if (!upper) return;
  MachineParts own;
  own.plan = parts.plan;
  own.kernel = parts.kernel;
  own.initramfs = parts.initramfs;
  own.image = disks.image.get();
  own.null = parts.null;
  own.disk_bytes = parts.disk_bytes;
  (void)templates_.begin(kind, own, std::move(*upper), template_words(part.request));
}

Result<UniqueFd> MicrovmTier::start(CarriedPart part) {
  Disks disks = *std::exchange(disks_, std::nullopt);
  const LaunchRequest& request = part.request;
  const UniqueFd kernel = TRY(store_->kernel());
  const UniqueFd group = TRY(part.sandbox.groups().open_v2());
  const std::vector<UniqueFd> tasks = TRY(part.sandbox.groups().open_tasks());
  std::vector<int> task_numbers;
  task_numbers.reserve(tasks.size());
  for (const UniqueFd& one : tasks) task_numbers.push_back(one.get());

  MachineParts parts;
  parts.plan = TRY(plan_machine(request.limits, kAccelerator, rate_.khz()));
  parts.kernel = kernel.get();
  parts.image = disks.image.get();
  parts.upper = disks.upper.get();
  parts.null = null_.get();
  parts.channel = part.stream.get();
  parts.tasks = task_numbers;
  parts.group = group.get();
  parts.user_namespace = part.sandbox.slot().user_namespace.get();
  parts.beside = part.sandbox.pidfd();
  parts.disk_bytes = request.limits.disk_bytes;
  const std::string shape = TRY(shape_of(request, parts.plan, store_->about()));
  const std::string id = part.sandbox.id().str();
  if (part.memory >= 0) {
    const SavedMachine saved = TRY(open_saved(part.memory));
    disks = TRY(take_saved(shape, saved));
    parts.image = disks.image.get();
    parts.upper = disks.upper.get();
    const std::uint32_t processors = parts.plan.processors = saved.about.processors;
    Machine machine = TRY(go_on_from(part, saved, parts));
    return keep(id, std::move(machine), std::move(disks), {shape, processors});
  }
  const Shape own{shape, parts.plan.processors};
  const std::string kind = fmt::format("{} {} {}", shape, own.processors, disks.name);
  if (auto copy = TRY(start_copy(part, kind, parts, disks)))
    return keep(id, std::move(*copy), std::move(disks), own);

  BootSeed seed{};
  TRY(sys::random_bytes(seed));
  const std::vector<std::byte> record = TRY(boot_record(request, seed));
  const std::vector<std::byte> initramfs = TRY(store_->initramfs_with(record));
  parts.initramfs = initramfs;
  Machine machine = TRY(Machine::start(qemu_driver(), parts));
  make_template(part, kind, parts, disks);
  return keep(id, std::move(machine), std::move(disks), own);
}

std::string MicrovmTier::failure(int trace) {
  std::string words = Machine::words_in(trace);
  return words.empty() ? words : "monitor: " + words;
}

}  // namespace caisson::engine::microvm
