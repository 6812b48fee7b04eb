// engine/launcher/core.h — the privileged part, without a socket: makes sandboxes, keeps them,
// takes them away.
//
// Single-threaded, so that clone is safe and cheap. `caisson run` calls it in its own process;
// `caisson launcher` puts a socket in front (serve.h) for the library and the server. Deadlines
// that must hold while nobody is connected are kept here: next_check() says when tick() wants to be
// called, and CPU time is looked at when it could be used up at the earliest, never in between.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/gate.h"
#include "engine/launch_request.h"
#include "engine/launcher/answers.h"
#include "engine/launcher/demand.h"
#include "engine/launcher/living.h"
#include "engine/native/tier.h"
#include "engine/usage.h"

namespace caisson::engine {

class LauncherCore {
 public:
  [[nodiscard]] static Result<LauncherCore> open(native::TierOptions options);
  LauncherCore(LauncherCore&&) noexcept = default;
  LauncherCore& operator=(LauncherCore&&) noexcept = default;
  ~LauncherCore();

  [[nodiscard]] Result<void> prepare(const LaunchRequest& request,
                                     const std::vector<UniqueFd>& folders);
  // `end`: for a caller who made the stream himself. His sandbox has a name.
  [[nodiscard]] Result<LaunchReply> launch(const LaunchRequest& request,
                                           std::vector<UniqueFd> folders,
                                           native::GuestEnd end = {});
  [[nodiscard]] Result<UniqueFd> connect(const std::string& id);
  [[nodiscard]] Result<Status> destroy(const std::string& id);
  // destroy() that leaves what the sandbox has on disk for a launch with `resume`.
  [[nodiscard]] Result<Status> stop(const std::string& id);
  // When nobody is left who could say which: a persistent one is stopped, another destroyed.
  [[nodiscard]] Result<Status> retire(const std::string& id);
  // destroy() for a single run that ends now: says what was used and leaves the rest to its
  // guardian, where there is one. The caller must not destroy this object any more.
  [[nodiscard]] Result<Status> leave(const std::string& id);
  [[nodiscard]] Result<void> freeze(const std::string& id);
  [[nodiscard]] Result<void> thaw(const std::string& id);
  // A child process that has the kernel take back what it can of the sandbox's memory. Writing out
  // what is dirty takes as long as the disk does, so nobody but that child waits for it.
  [[nodiscard]] Result<sys::Child> start_reclaim(const std::string& id);
  [[nodiscard]] Result<void> set_limits(const std::string& id, const Limits& limits);
  [[nodiscard]] Result<Status> status(const std::string& id);
  [[nodiscard]] std::vector<std::string> list() const;
  [[nodiscard]] std::size_t count() const noexcept { return live_.size(); }
  [[nodiscard]] Result<void> kill(const std::string& id, EndReason reason);

  // For one who serves many, in core_many.cc: at most `max` sandboxes whose ids come after `after`,
  // in order; what init must show; a TCP socket in a sandbox's network; the pidfd of its init, -1
  // once that was reaped.
  [[nodiscard]] std::vector<Living> living(const std::string& after, std::size_t max);
  [[nodiscard]] Result<Nonce> nonce(const std::string& id);
  [[nodiscard]] Result<UniqueFd> socket_inside(const std::string& id, int family);
  // The way out of a sandbox that has none yet, or whose last server is gone.
  [[nodiscard]] Result<GateSockets> open_gate(const std::string& id,
                                              const std::vector<std::uint16_t>& ports,
                                              std::uint16_t proxy = 0);
  [[nodiscard]] int pidfd(const std::string& id) const noexcept;
  [[nodiscard]] Result<void> sweep() { return tier_->sweep(); }

  // File state, in core_layers.cc: see engine/channel/launcher_channel.h, which asks for it.
  [[nodiscard]] Result<PoolFacts> pool();
  [[nodiscard]] Result<Sealed> seal(const std::string& id, const std::string& layer);
  // Before a seal or a save of a sandbox with a kernel of its own: a child that waits until its
  // init has given out what that kernel holds back, and says no more. None where nobody is to be
  // waited for, or where the call itself will say why it cannot be.
  [[nodiscard]] Result<std::optional<sys::Child>> start_hold(const std::string& id);
  // Busy when init did not obey. Else the next seal or save finds it silent; release() is for when
  // none has come of it.
  [[nodiscard]] Result<void> end_hold(const std::string& id, bool silent);
  void release(const std::string& id);
  [[nodiscard]] Result<void> restack(const std::string& id, const LayerStack& stack,
                                     bool end_processes);
  // What was written before must be on disk already: start_sync().
  [[nodiscard]] Result<std::uint64_t> commit_layer(const std::string& id, const std::string& layer);
  [[nodiscard]] Result<void> drop(StoreEntry::Kind kind, const std::string& name);
  [[nodiscard]] Result<std::vector<StoreEntry>> stored();
  [[nodiscard]] Result<void> set_volume(const std::string& name, std::uint64_t bytes_max);
  // Memory, in core_memory.cc. A save takes two steps, with a child of ours that works in between;
  // afterwards the sandbox stands still until go_on(), or until it is destroyed. To measure is to
  // learn the digest, which a launch with that memory has to name.
  [[nodiscard]] Result<sys::Child> start_save(const std::string& id, const std::string& name,
                                              MemorySave::After after);
  // Nothing is left of it when the sandbox was taken away meanwhile.
  [[nodiscard]] Result<SavedMemory> end_save(const std::string& id, const std::string& name,
                                             bool whole);
  [[nodiscard]] Result<void> go_on(const std::string& id);
  [[nodiscard]] Result<sys::Child> start_measure(const std::string& name);
  [[nodiscard]] Result<SavedMemory> end_measure(const std::string& name);
  // A child process that waits for the disk, as long as that takes.
  [[nodiscard]] Result<sys::Child> start_sync();

  // When tick() is due next, and what it does: ends what is over its time, reaps what has ended.
  [[nodiscard]] std::optional<TimePoint> next_check() const;
  void tick();

  // Idle work: slots, networks, and whole blank sandboxes of the kinds that were asked for lately.
  // False when there is none.
  [[nodiscard]] bool refill();

  [[nodiscard]] const HostFeatures& host() const noexcept { return tier_->host(); }

 private:
  struct Live {
    native::Sandbox sandbox;
    LaunchRequest request;  // its stack as it stands now
    Limits limits;
    TimePoint started;
    std::optional<TimePoint> due;  // as it stands in due_
    EndReason end = EndReason::Running;
    bool frozen = false;
    std::string detail;
    Record record;
    struct Standing {
      std::string memory;
      MemorySave::After after = MemorySave::After::GoOn;
      std::optional<MemoryKept> kept;  // none: it is being saved
    };
    std::optional<Standing> standing;  // by start_save()
    enum class Silence : std::uint8_t { None, Asked, Kept };
    Silence silence = Silence::None;  // by start_hold()
  };

  // A sandbox that nobody has asked for yet: made in idle time, handed out when a request fits.
  struct Blank {
    LaunchRequest request;
    native::Launched launched;
  };

  explicit LauncherCore(std::unique_ptr<native::NativeTier> tier) : tier_(std::move(tier)) {}
  [[nodiscard]] Result<Live*> find(const std::string& id);
  [[nodiscard]] Record record_of(const LaunchRequest& request);
  [[nodiscard]] Result<native::Launched> launch_or_take(const LaunchRequest& request,
                                                        std::vector<UniqueFd> folders,
                                                        native::GuestEnd end);
  [[nodiscard]] Result<native::Launched> take_blank(const LaunchRequest& request);
  [[nodiscard]] Result<void> become(Blank& blank, const LaunchRequest& request);
  [[nodiscard]] bool make_blank();
  [[nodiscard]] bool add_blank(LaunchRequest request);
  void check_time(Live& live);
  void reap(Live& live);
  void arm(Live& live);
  void disarm(Live& live);
  [[nodiscard]] Result<Status> end(const std::string& id, native::NativeTier::Files files);
  [[nodiscard]] bool uses(const LaunchRequest& request, StoreEntry::Kind kind,
                          const std::string& name) const;
  [[nodiscard]] Result<void> end_processes(Live& live);
  [[nodiscard]] Result<void> check_memory(const LaunchRequest& request);

  // The tier outlives its sandboxes: it stands first.
  std::unique_ptr<native::NativeTier> tier_;
  std::vector<Blank> blanks_;
  Demand demand_;                                // which blanks to make
  std::map<std::string, UniqueFd> measuring_;    // where the child writes what it finds
  std::map<std::string, std::string> measured_;  // digests by name; each is good for one launch
  std::map<std::string, Live, std::less<>> live_;
  std::set<std::pair<TimePoint, std::string>>
      due_;  // so that a look at the clock costs the same with a thousand alive
};

}  // namespace caisson::engine
