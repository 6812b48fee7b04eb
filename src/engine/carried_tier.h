// engine/carried_tier.h — what a tier with a kernel of its own offers. Start here to write one.
//
// Its sandbox is a native one whose process 1 is a carrier (guest/carrier/carrier.h): ids, groups,
// namespaces, control socket, freezing, killing, limits and adoption are those of native/, and no
// caller sees a difference. Beside the carrier stands the tier's own part, which runs the other
// kernel, and in it our init. Both are joined by one stream for life. The part is started into the
// sandbox's groups and into the pid namespace of the carrier (NativeTier::start_part), so whatever
// ends the one ends the other, and nothing has to be taken away afterwards.
//
// A sandbox whose memory is kept (a snapshot with memory, a fork with processes, hibernation) goes
// through save() and saved(); what is kept makes a sandbox of the same tier go on, by start() with
// CarriedPart::memory. One that begins so is held, and hears a configuration first.
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
#include "sys/process.h"

namespace caisson::engine {

namespace native {
class NativeTier;
}

// For the record of each sandbox.
struct TierFacts {
  std::string kernel;  // what runs the tenants, and on what
};

struct CarriedFiles {
  const LaunchRequest& request;  // with `memory`: those files are asked for again
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
  int memory = -1;  // the folder that save() filled: what stood there goes on. -1: a fresh start
};

// Keeping the memory of a sandbox. Its init is held: nothing lies in either direction of its
// stream, and whoever makes it go on sends Release, or a configuration.
struct MemorySave {
  native::NativeTier& native;
  const LaunchRequest& request;
  native::Sandbox& sandbox;
  std::string name;  // of the folder in the store: NativeTier::memory_mount()
  int folder = -1;   // the same, as root sees it, empty: O_RDONLY | O_DIRECTORY
  // Whether the sandbox goes on afterwards, or its processes end here.
  enum class After : std::uint8_t { GoOn, End } after = After::GoOn;
};

struct MemoryKept {
  // The other kernel has ended, as some do when they are saved: to go on, start() is called again,
  // with what was saved. Otherwise go_on() is.
  bool ended = false;
  bool files = false;  // what the sandbox has written is in there: it needs no layer of it
};

// For a copy, before anybody runs in it: the name of the request, a machine id and random numbers
// of its own. Said to its carrier.
[[nodiscard]] Result<void> tell_identity(const native::Sandbox& sandbox,
                                         const LaunchRequest& request);

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
  // A carried sandbox of this tier is gone.
  virtual void ended(const std::string& /*id*/) {}

  // --- memory. All three are Unsupported where a tier keeps none.
  // Everything that must be the same where memory that is saved now runs again.
  [[nodiscard]] virtual Result<std::string> memory_runtime(const LaunchRequest& request);
  // Begins, and does not wait: when the child that comes back has ended with 0, all of it is in the
  // folder. The guest stands still from here on.
  [[nodiscard]] virtual Result<sys::Child> save(const MemorySave& wish);
  // That child has ended; `whole`: with 0. An error says why it is not kept, and whether the
  // sandbox can go on all the same: alive() of its process 1, and go_on() then.
  [[nodiscard]] virtual Result<MemoryKept> saved(const MemorySave& wish, bool whole);
  // The guest stands still no longer. init is still held.
  [[nodiscard]] virtual Result<void> go_on(const MemorySave& wish);
};

}  // namespace caisson::engine
