// engine/native/tier.h — the native tier: namespaces, an overlay, control groups, seccomp and
// Landlock of this kernel. Start at launch(). The parent half is here; the child half, from clone
// to execve, is child.cc and obeys its own rules.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/carried_tier.h"
#include "engine/gate.h"
#include "engine/host/features.h"
#include "engine/launch_request.h"
#include "engine/layers.h"
#include "engine/native/child.h"
#include "engine/native/groups.h"
#include "engine/native/guardian.h"
#include "engine/native/head_start.h"
#include "engine/native/part.h"
#include "engine/native/pool.h"
#include "engine/native/rootfs.h"
#include "engine/native/sandbox.h"
#include "engine/native/stage.h"
#include "engine/native/supply.h"
#include "guest/protocol/protocol.h"

namespace caisson::engine::native {

struct TierOptions {
  HostFeatures host;
  std::string state_dir;
  Lifetime lifetime = Lifetime::OneShot;
  std::unique_ptr<HeadStart> head_start;  // of a single run
  std::uint64_t pool_bytes = 0;           // of a store that is yet to be made; 0: see Pool
};

// The host image as one launcher uses it.
struct HostImage {
  std::string skeleton;  // below the state directory
  std::string seam;      // the same
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
  // Program::Carrier: init's end of the stream that it has for life. Whoever runs that init gives
  // it to it as 0 and 1, and keeps none.
  UniqueFd carried;
  GateSockets gate;
  std::optional<Rootfs> files;  // of another kernel's guest, until that one is started
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
  // Starts a program beside the carrier that the sandbox's process 1 is. It goes with it.
  [[nodiscard]] Result<void> start_part(const Sandbox& sandbox, const PartProgram& program);
  // The same, for a program that ends by itself and is waited for.
  [[nodiscard]] Result<sys::Child> start_errand(const Sandbox& sandbox, const PartProgram& program);
  // For a part: a copy of every sandbox's /dev, and the null device.
  [[nodiscard]] Result<UniqueFd> device_folder();
  [[nodiscard]] Result<int> null_device();
  // The tiers with a kernel of their own, by kind.
  void add(policy::SandboxTier kind, std::unique_ptr<CarriedTier> tier) {
    carried_[kind] = std::move(tier);
  }
  // Unsupported when there is none of that kind.
  [[nodiscard]] Result<CarriedTier*> carried(policy::SandboxTier kind) const;
  enum class Files : std::uint8_t { Remove, Keep };
  [[nodiscard]] Result<void> destroy(Sandbox sandbox, Files files = Files::Remove);
  // For one that was handed out and may now run for long: see Supply::put_by().
  void put_by(Sandbox& sandbox) { supply_.put_by(sandbox.slot()); }

  // --- file state, in tier_layers.cc. `request` is the sandbox's own as it stands, and is changed
  // with it. The store is made when it is first needed.
  [[nodiscard]] Result<Pool*> pool();
  // What was said to it before: its init is silent, which is for the seal to end; or nothing of it
  // runs, by save().
  enum class Rest : std::uint8_t { None, Silent, Held };
  [[nodiscard]] Result<Sealed> seal(Sandbox& sandbox, LaunchRequest& request,
                                    const std::string& layer, Rest rest = Rest::None);
  [[nodiscard]] Result<void> restack(Sandbox& sandbox, LaunchRequest& request,
                                     const LayerStack& stack);
  // --- memory, in tier_memory.cc: what carried_tier.h says, for every tier. The launcher calls
  // them in this order, and starts the sandbox that goes on with it by launch().
  struct Saving {
    Sandbox& sandbox;
    const LaunchRequest& request;
    std::string name;
    MemorySave::After after = MemorySave::After::GoOn;
    bool silent = false;  // its init is
  };
  [[nodiscard]] Result<std::string> memory_runtime(const LaunchRequest& request);
  // Holds the sandbox; an error means that it goes on.
  [[nodiscard]] Result<sys::Child> save(const Saving& wish);
  [[nodiscard]] Result<MemoryKept> saved(const Saving& wish, bool whole);
  // An error: it has ended, or will in a moment.
  [[nodiscard]] Result<void> go_on(const Saving& wish, const MemoryKept& kept);
  // The folder of a memory, as a slot sees it: what it writes there belongs to the store.
  [[nodiscard]] Result<UniqueFd> memory_mount(const Slot& slot, const std::string& name);
  // The same as root sees it.
  [[nodiscard]] Result<UniqueFd> memory_folder(const std::string& name);

  // What a living sandbox has written, for another one of the slot `slot` to read.
  using UpperOf = std::function<Result<UniqueFd>(const std::string& id, const Slot& slot)>;
  void set_uppers(UpperOf upper_of) { upper_of_ = std::move(upper_of); }
  [[nodiscard]] Result<UniqueFd> upper_of(const Sandbox& sandbox, const LaunchRequest& request,
                                          const Slot& slot);
  // Somebody takes the sandbox of this single run away when this process has ended.
  [[nodiscard]] bool guarded() const noexcept { return guardian_ && guardian_->on_duty(); }
  // Takes away what killed launchers left, as far as their last processes have let go of it.
  [[nodiscard]] Result<void> sweep() { return supply_.sweep(); }
  // One step of making things ahead, for when nothing else is to do. False when there is nothing
  // left to make.
  [[nodiscard]] Result<bool> refill() {
    if (pool_) {
      pool_->tidy();
      if (pool_->stock()) return true;
    }
    return supply_.refill();
  }
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
  [[nodiscard]] bool enters_root() const noexcept {
    return Supply::empty_mounts(host()) || trimmed();
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
  struct ConfigFlags {
    bool groups = false;
    bool oom = false;
    bool carried = false;  // of an init under another kernel
  };
  [[nodiscard]] std::uint32_t native_flags(const LaunchRequest& request, const Slot& slot,
                                           ConfigFlags flags) const;
  [[nodiscard]] Result<void> send_config(wire::ControlKind kind, int control,
                                         const LaunchRequest& request, const Slot& slot,
                                         const Nonce& nonce, ConfigFlags flags);
  [[nodiscard]] RootfsSources rootfs_sources();
  [[nodiscard]] Result<int> program(Program program);
  [[nodiscard]] Result<void> make_places(const LaunchRequest& request);
  void remove_places(const std::string& id);
  [[nodiscard]] Result<void> swap_stack(Sandbox& sandbox, LaunchRequest& request,
                                        const LayerStack& stack);
  [[nodiscard]] Result<void> replace_stack(Sandbox& sandbox, LaunchRequest& request,
                                           const LayerStack& stack);
  [[nodiscard]] Result<void> swap_on_disk(Sandbox& sandbox, LaunchRequest& request,
                                          const LayerStack& stack);
  [[nodiscard]] Result<void> swap_in_memory(Sandbox& sandbox, LaunchRequest& request,
                                            const LayerStack& stack);
  [[nodiscard]] Result<Sealed> seal_stacked(Sandbox& sandbox, LaunchRequest& request,
                                            const std::string& layer, const std::string& fresh);
  [[nodiscard]] Result<Rootfs> carrier_root();
  [[nodiscard]] Result<void> start_beside(Launched& launched, const LaunchRequest& request);
  enum class Belongs : std::uint8_t { Carrier, Us };
  [[nodiscard]] Result<sys::Child> start_program(const Sandbox& sandbox, const PartProgram& program,
                                                 Belongs to);
  [[nodiscard]] Result<void> carry_anew(const Saving& wish, CarriedTier& tier);
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
  std::optional<Pool> pool_;
  UniqueFd layer_program_;
  UniqueFd carrier_program_;
  UpperOf upper_of_;
  UniqueFd home_mounts_;  // of a service: the namespace that callers' folders belong to
  UniqueFd own_mounts_;
  std::map<seccomp::Profile, seccomp::Filter> filters_;
  std::map<policy::SandboxTier, std::unique_ptr<CarriedTier>> carried_;
  std::string init_fingerprint_;
  std::unique_ptr<std::byte[]> stack_;
};

}  // namespace caisson::engine::native
