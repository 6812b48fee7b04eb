// engine/carried_tier.h — what a tier with a kernel of its own offers. Start here to write one.
//
// Its sandbox is a native one whose process 1 is a carrier (guest/carrier/carrier.h): ids, groups,
// namespaces, control socket, freezing, killing, limits and adoption are those of native/, and no
// caller sees a difference. Beside the carrier stands the tier's own part, which runs the other
// kernel, and in it our init. Both are joined by one stream for life. The part is started into the
// sandbox's groups and into the pid namespace of the carrier (NativeTier::start_part), so whatever
// ends the one ends the other, and nothing has to be taken away afterwards.
//
// A launch asks three things, in this order: facts(), before anything is made; files(), before the
// carrier; start(), once the carrier lives. What a tier cannot do it refuses with Unsupported, and
// docs/guides/tiers.md says so.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/launch_request.h"
#include "engine/native/rootfs.h"
#include "engine/native/sandbox.h"

namespace caisson::engine {

namespace native {
class NativeTier;
}

// For the record of each sandbox.
struct TierFacts {
  std::string kernel;  // what runs the tenants, and on what
};

struct CarriedFiles {
  const LaunchRequest& request;
  native::Slot& slot;
  std::span<const UniqueFd> folders;
  const native::RootfsSources& sources;
};

struct CarriedPart {
  native::NativeTier& native;
  const LaunchRequest& request;
  const native::Sandbox& sandbox;  // its process 1 is the carrier
  UniqueFd stream;                 // init's end
  native::Rootfs files;            // what files() made; its private tmpfs is the sandbox's already
};

class CarriedTier {
 public:
  CarriedTier() = default;
  CarriedTier(const CarriedTier&) = delete;
  CarriedTier& operator=(const CarriedTier&) = delete;
  virtual ~CarriedTier() = default;

  // Unsupported, by name, where this tier cannot run.
  [[nodiscard]] virtual Result<TierFacts> facts() = 0;
  // What of a request it cannot hold.
  [[nodiscard]] virtual Result<void> check(const LaunchRequest& request) = 0;
  [[nodiscard]] virtual Result<native::Rootfs> files(const CarriedFiles& wish) = 0;
  // What comes back lives as long as the sandbox: a descriptor in which failure() can read why the
  // part has ended, or none.
  [[nodiscard]] virtual Result<UniqueFd> start(CarriedPart part) = 0;
  // Empty when the part has said nothing.
  [[nodiscard]] virtual std::string failure(int trace) = 0;
};

}  // namespace caisson::engine
