// engine/microvm/tier.h — the microVM tier: a kernel of its own on a processor that a monitor gives
// it. Start at MicrovmTier::start().
//
// Beside the carrier stands the monitor, in a jail of its own (jail/jail.h): in the sandbox's
// groups and in the carrier's pid namespace, but in no network, and with nothing of the sandbox but
// the stream and two disks. The root is a block image that machines share (images.h), what is
// written goes to a disk that has no name (disks.h) and is gone with the machine.
#pragma once

#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "engine/carried_tier.h"
#include "engine/microvm/clock_rate.h"
#include "engine/microvm/driver.h"
#include "engine/microvm/images.h"
#include "engine/microvm/templates.h"
#include "engine/microvm/vm_store.h"

namespace caisson::engine::microvm {

class MicrovmTier final : public CarriedTier {
 public:
  // `patience`: whether a launch waits for an image of its root. Made while we are among the host's
  // own mounts: programs of the host are asked about themselves there, whatever we leave later.
  MicrovmTier(std::string state_dir, Patience patience);

  [[nodiscard]] Result<TierFacts> facts() override;
  [[nodiscard]] Result<void> check(const LaunchRequest& request) override;
  [[nodiscard]] Result<native::Rootfs> files(const CarriedFiles& wish) override;
  [[nodiscard]] Result<UniqueFd> start(CarriedPart part) override;
  [[nodiscard]] std::string failure(int trace) override;

 private:
  struct Disks {
    std::string name;  // of the image
    UniqueFd image;
    UniqueFd upper;
  };
  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> look();
  // A copy of a machine that has booted, where there is one of that kind.
  [[nodiscard]] Result<bool> start_copy(const CarriedPart& part, const std::string& kind,
                                        MachineParts& parts, Disks& disks);
  void make_template(const CarriedPart& part, const std::string& kind, const MachineParts& parts,
                     const Disks& disks);

  std::string state_dir_;
  Patience patience_;
  UniqueFd home_mounts_;
  ClockRate rate_;
  std::optional<DriverFacts> driver_;
  std::optional<VmStore> store_;
  std::optional<ImageShelf> images_;
  TemplateShelf templates_;
  UniqueFd null_;
  std::optional<Machine> machine_;
  std::optional<Disks> disks_;  // between files() and start() of one launch
};

}  // namespace caisson::engine::microvm
