// The programs that stand beside carriers: see part.h.
#include <fcntl.h>

#include "engine/native/low_descriptors.h"
#include "engine/native/tier.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/namespace.h"

namespace caisson::engine::native {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& one : strings) out.push_back(const_cast<char*>(one.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<UniqueFd> NativeTier::device_folder() {
  return sys::clone_mount(TRY(need_devices()), "", 0);
}

Result<int> NativeTier::null_device() {
  TRY(need_parts());
  return parts_->null.get();
}

Result<CarriedTier*> NativeTier::carried(policy::SandboxTier kind) const {
  const auto at = carried_.find(kind);
  if (at == carried_.end()) {
    return failure(Errc::Unsupported,
                   "tier: '" + std::string(tier_name(kind)) + "' is not available in this version");
  }
  return at->second.get();
}

// A carrier opens nothing: it gets what the launch itself needs to be done, and cannot write there.
Result<Rootfs> NativeTier::carrier_root() {
  Rootfs files;
  files.root = TRY(sys::clone_mount(
      state_.get(), image_->skeleton,
      sys::kMountReadOnly | sys::kMountNoSuid | sys::kMountNoDev | sys::kMountNoExec));
  files.mounts.push_back({"dev", TRY(device_folder())});
  return files;
}

// The carrier lives: now what it stands for.
Result<void> NativeTier::start_beside(Launched& launched, const LaunchRequest& request) {
  CarriedTier* tier = TRY(carried(request.tier));
  CarriedPart part{*this,
                   request,
                   launched.sandbox,
                   std::move(launched.carried),
                   *std::exchange(launched.files, std::nullopt),
                   -1};
  UniqueFd memory;
  if (!request.memory.name.empty()) memory = TRY(memory_folder(request.memory.name));
  part.memory = memory.get();
  UniqueFd trace = TRY_IN(tier_name(request.tier), tier->start(std::move(part)));
  if (trace) launched.sandbox.keep_trace(TRY(sys::park(std::move(trace))));
  return {};
}

Result<void> NativeTier::start_part(const Sandbox& sandbox, const PartProgram& program) {
  sys::Child between = TRY(start_program(sandbox, program, Belongs::Carrier));
  TRY(between.wait());
  return {};
}

Result<sys::Child> NativeTier::start_errand(const Sandbox& sandbox, const PartProgram& program) {
  return start_program(sandbox, program, Belongs::Us);
}

Result<sys::Child> NativeTier::start_program(const Sandbox& sandbox, const PartProgram& program,
                                             Belongs to) {
  if (!host().privileged)
    return failure(Errc::Unsupported, "another kernel beside a carrier needs root");
  const UniqueFd group = TRY(sandbox.groups().open_v2());
  const std::vector<UniqueFd> tasks = TRY(sandbox.groups().open_tasks());
  LowDescriptors low;
  std::vector<int> task_numbers;
  task_numbers.reserve(tasks.size());
  for (const UniqueFd& file : tasks) task_numbers.push_back(TRY(low.lift(file.get())));
  std::vector<ChildMount> mounts;
  mounts.reserve(program.mounts.size());
  for (const Mounted& mounted : program.mounts)
    mounts.push_back({TRY(low.lift(mounted.mount.get())), mounted.target.c_str()});
  std::vector<ChildDescriptor> handed;
  handed.reserve(program.descriptors.size());
  for (const HandedDescriptor& one : program.descriptors)
    handed.push_back({TRY(low.lift(one.fd)), one.number});
  std::vector<char*> arguments = pointers(program.arguments);
  std::vector<char*> environment = pointers(program.environment);

  ChildPlan plan;
  plan.tasks = task_numbers.data();
  plan.task_count = task_numbers.size();
  // All that it shares with the carrier is found through the carrier's pidfd.
  plan.network = TRY(low.lift(sandbox.pidfd()));
  plan.mount_namespace = plan.network;
  plan.copies_mounts = true;
  // Not on a folder: who stands in a chroot may make no user namespace.
  plan.place = "/";
  plan.root = TRY(low.lift(program.root.get()));
  plan.mounts = mounts.data();
  plan.mount_count = mounts.size();
  plan.plain_proc = true;
  plan.root_switch = RootSwitch::Enter;
  plan.user_namespace = TRY(low.lift(program.user_namespace));
  plan.cgroup_namespace = false;
  plan.init_uid = program.uid;
  plan.init_gid = program.gid;
  plan.capabilities = program.capabilities;
  plan.init = TRY(low.lift(program.program));
  plan.group = TRY(low.lift(group.get()));
  plan.descriptors = handed.data();
  plan.descriptor_count = handed.size();
  plan.orphaned = to == Belongs::Carrier;
  plan.argv = arguments.data();
  plan.envp = environment.data();
  const auto visit = TRY(sys::PidNamespaceVisit::begin(sandbox.pidfd()));
  return TRY_IN(program.arguments.front(), clone_child(plan));
}

}  // namespace caisson::engine::native
