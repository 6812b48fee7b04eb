// engine/microvm/tier.h — the microVM tier: a kernel of its own on a processor that a monitor gives
// it. Start at MicrovmTier::start().
//
// Beside the carrier stands the monitor, in a jail of its own (jail/jail.h): in the sandbox's
// groups and in the carrier's pid namespace, but in no network, and with nothing of the sandbox but
// the stream and two disks. The root is a block image that machines share (images.h), what is
// written goes to a disk that has no name (disks.h) and is gone with the machine.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "engine/carried_tier.h"
#include "engine/microvm/clock_rate.h"
#include "engine/microvm/driver.h"
#include "engine/microvm/images.h"
#include "engine/microvm/saved.h"
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
  void ended(const std::string& id) override { living_.erase(id); }

  // In tier_memory.cc. A machine stands still while its devices are saved and its memory and disk
  // are copied, and goes on; what is kept is copied again for each machine that goes on from it.
  [[nodiscard]] Result<std::string> memory_runtime(const LaunchRequest& request) override;
  [[nodiscard]] Result<sys::Child> save(const MemorySave& wish) override;
  [[nodiscard]] Result<MemoryKept> saved(const MemorySave& wish, bool whole) override;
  [[nodiscard]] Result<void> go_on(const MemorySave& wish) override;

 private:
  struct Disks {
    std::string name;  // of the image
    UniqueFd image;
    UniqueFd upper;
  };
  // A machine that runs, until ended().
  struct Living {
    Machine machine;
    UniqueFd upper;
    SavedAbout about;
    UniqueFd devices;  // while it stands still
  };
  [[nodiscard]] Result<Living*> find(const std::string& id);
  // What is kept of a machine says what goes on: no disk is made, and no image chosen.
  [[nodiscard]] Result<Disks> take_saved(const std::string& shape, const SavedMachine& saved);
  [[nodiscard]] Result<Machine> go_on_from(const CarriedPart& part, const SavedMachine& saved,
                                           MachineParts& parts);
  struct Shape {
    std::string text;
    std::uint32_t processors = 1;
  };
  [[nodiscard]] Result<UniqueFd> keep(const std::string& id, Machine machine, Disks disks,
                                      const Shape& shape);
  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> look();
  // A copy of a machine that has booted, where there is one of that kind.
  [[nodiscard]] Result<std::optional<Machine>> start_copy(const CarriedPart& part,
                                                          const std::string& kind,
                                                          MachineParts parts, Disks& disks);
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
  std::optional<Disks> disks_;  // between files() and start() of one launch
  std::map<std::string, Living> living_;
};

}  // namespace caisson::engine::microvm
