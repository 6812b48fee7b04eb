// engine/gvisor/gvisor.h — the gVisor tier: a kernel in a process of the host's, which alone hears
// what tenants ask of a kernel. Start at GvisorTier::start().
//
// runsc is run by us, without a daemon and without a manager of containers. Before it is executed
// it has been taken out of the host: it stands in the sandbox's groups, in the carrier's pid and
// network namespaces, in a mount namespace with one small tmpfs and the guest's tree, and in a user
// namespace of the sandbox's own ids, so that it never has a right on the host (P47). It starts its
// two processes (the kernel, and the one that opens files for it), says go, and ends. Its state
// lies in that tmpfs and goes with it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "engine/carried_tier.h"
#include "engine/gvisor/runsc.h"

namespace caisson::engine::gvisor {

class GvisorTier final : public CarriedTier {
 public:
  // `state`: the launcher's state directory, where is kept what runsc says about itself.
  explicit GvisorTier(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  [[nodiscard]] Result<TierFacts> facts() override;
  [[nodiscard]] Result<void> check(const LaunchRequest& request) override;
  [[nodiscard]] Result<native::Rootfs> files(const CarriedFiles& wish) override;
  [[nodiscard]] Result<UniqueFd> start(CarriedPart part) override;
  [[nodiscard]] std::string failure(int trace) override;
  void ended(const std::string& id) override { saving_.erase(id); }

  // In memory.cc: by `runsc checkpoint`, which ends the sandbox's kernel, and `runsc restore`.
  [[nodiscard]] Result<std::string> memory_runtime(const LaunchRequest& request) override;
  [[nodiscard]] Result<sys::Child> save(const MemorySave& wish) override;
  [[nodiscard]] Result<MemoryKept> saved(const MemorySave& wish, bool whole) override;
  [[nodiscard]] Result<void> go_on(const MemorySave& wish) override;

 private:
  [[nodiscard]] Result<const Runsc*> runsc();

  std::string state_dir_;
  std::optional<Runsc> runsc_;
  std::map<std::string, UniqueFd> saving_;  // by sandbox: what a save says about itself
};

}  // namespace caisson::engine::gvisor
