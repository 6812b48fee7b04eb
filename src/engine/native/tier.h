// engine/native/tier.h — the native tier: namespaces, an overlay, control groups, seccomp and
// Landlock of this kernel. Start at launch(). The parent half is here; the child half, from clone
// to execve, is child.cc and obeys its own rules.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/gate.h"
#include "engine/host/features.h"
#include "engine/launch_request.h"
#include "engine/native/child.h"
#include "engine/native/groups.h"
#include "engine/native/guardian.h"
#include "engine/native/head_start.h"
#include "engine/native/rootfs.h"
#include "engine/native/sandbox.h"
#include "engine/native/stage.h"
#include "engine/native/supply.h"

namespace caisson::engine::native {

struct TierOptions {
  HostFeatures host;
  std::string state_dir;
  Lifetime lifetime = Lifetime::OneShot;
  std::unique_ptr<HeadStart> head_start;  // of a single run
};

// The host image as one launcher uses it.
struct HostImage {
  std::string skeleton;  // below the state directory
  std::vector<std::string> system_folders;
};

// init's end of a stream that the caller made, to speak before anybody listens.
struct GuestEnd {
  UniqueFd stream;
  Nonce nonce{};
};

struct Launched {
  Sandbox sandbox;
  UniqueFd stream;  // our end of init's stream; none when the caller has it
  GateSockets gate;
};

class PendingGroups;

class NativeTier {
 public:
  [[nodiscard]] static Result<std::unique_ptr<NativeTier>> open(TierOptions options);
  NativeTier(const NativeTier&) = delete;
  NativeTier& operator=(const NativeTier&) = delete;
  ~NativeTier();

  // Starts making the namespaces of the next launch and returns at once.
  [[nodiscard]] Result<void> prepare(const LaunchRequest& request,
                                     const std::vector<UniqueFd>& folders);
  [[nodiscard]] Result<Launched> launch(const LaunchRequest& request, std::vector<UniqueFd> folders,
                                        GuestEnd end = {});
  [[nodiscard]] Result<void> destroy(Sandbox sandbox);
  // Somebody takes the sandbox of this single run away when this process has ended.
  [[nodiscard]] bool guarded() const noexcept { return guardian_ && guardian_->on_duty(); }
  // Takes away what killed launchers left, as far as their last processes have let go of it.
  [[nodiscard]] Result<void> sweep() { return supply_.sweep(); }
  // One step of making things ahead, for when nothing else is to do. False when there is nothing
  // left to make.
  [[nodiscard]] Result<bool> refill() { return supply_.refill(); }
  [[nodiscard]] bool makes_ahead() const noexcept { return options_.lifetime == Lifetime::Service; }

  [[nodiscard]] const HostFeatures& host() const noexcept { return options_.host; }
  [[nodiscard]] const GroupRoots& group_roots() const noexcept { return group_roots_; }
  [[nodiscard]] const seccomp::Filter& filter(seccomp::Profile profile);

 private:
  explicit NativeTier(TierOptions options)
      : options_(std::move(options)),
        supply_(options_.host, options_.lifetime),
        stage_(Stage::needed(options_.host)) {}
  // A mount namespace of our own, with only what launching needs.
  [[nodiscard]] bool trimmed() const noexcept {
    return options_.lifetime == Lifetime::Service || stage_.needed();
  }

  [[nodiscard]] Result<void> open_state();
  [[nodiscard]] Result<void> need_image();
  [[nodiscard]] Result<int> need_devices();
  [[nodiscard]] Result<void> need_parts();
  [[nodiscard]] Result<void> trim();
  [[nodiscard]] Result<Groups> make_groups(const SandboxId& id, const LaunchRequest& request,
                                           const IdPlan& ids, std::uint32_t slot);
  [[nodiscard]] Result<Launched> launch_in(Slot& slot, PendingGroups& pending, const SandboxId& id,
                                           const LaunchRequest& request,
                                           const std::vector<UniqueFd>& folders, GuestEnd end);
  [[nodiscard]] Result<void> send_config(int control, const LaunchRequest& request,
                                         const Slot& slot, const Nonce& nonce, bool groups,
                                         bool oom);
  [[nodiscard]] ChildPlan child_plan(const LaunchRequest& request, const Slot& slot) const;
  [[nodiscard]] Result<sys::Child> clone_child(ChildPlan& plan);

  TierOptions options_;
  // Built downward, destroyed upward.
  GroupRoots group_roots_;
  std::optional<Guardian> guardian_;  // of a single run
  UniqueFd state_;
  Supply supply_;
  Stage stage_;
  std::optional<HostImage> image_;
  UniqueFd devices_;  // what every /dev is a copy of
  std::optional<HostParts> parts_;
  UniqueFd home_mounts_;  // of a service: the namespace that callers' folders belong to
  UniqueFd own_mounts_;
  std::map<seccomp::Profile, seccomp::Filter> filters_;
  std::unique_ptr<std::byte[]> stack_;
};

}  // namespace caisson::engine::native
