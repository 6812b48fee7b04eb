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
#include "engine/launch_request.h"
#include "engine/native/tier.h"
#include "engine/usage.h"

namespace caisson::engine {

inline constexpr std::size_t kSandboxesMax = 4096;  // of one launcher

// What holds for a sandbox: chosen by the launcher from what the host has, never by the caller.
struct Record {
  std::string tier = "native";
  std::string kernel;
  int landlock_abi = 0;
  std::string seccomp;  // fingerprint of the filter
  std::string groups;   // "v2", "v2 membership, v1 limits", "none"
  std::string quota = "tmpfs";
  std::string ids;  // "slot", "sub-ids", "single id"
  std::string network = "lo only";

  friend bool operator==(const Record&, const Record&) = default;
};

struct LaunchReply {
  std::string id;
  UniqueFd stream;
  Nonce nonce{};
  Record record;
  pid_t init_pid = 0;
};

struct Status {
  EndReason end = EndReason::Running;
  bool frozen = false;
  Usage usage;
  std::string detail;  // why init could not begin
};

class LauncherCore {
 public:
  [[nodiscard]] static Result<LauncherCore> open(native::TierOptions options);
  LauncherCore(LauncherCore&&) noexcept = default;
  LauncherCore& operator=(LauncherCore&&) noexcept = default;
  ~LauncherCore();

  [[nodiscard]] Result<void> prepare(const LaunchRequest& request,
                                     const std::vector<UniqueFd>& folders);
  [[nodiscard]] Result<LaunchReply> launch(const LaunchRequest& request,
                                           std::vector<UniqueFd> folders);
  [[nodiscard]] Result<UniqueFd> connect(const std::string& id);
  [[nodiscard]] Result<Status> destroy(const std::string& id);
  [[nodiscard]] Result<void> freeze(const std::string& id);
  [[nodiscard]] Result<void> thaw(const std::string& id);
  [[nodiscard]] Result<void> set_limits(const std::string& id, const Limits& limits);
  [[nodiscard]] Result<Status> status(const std::string& id);
  [[nodiscard]] std::vector<std::string> list() const;
  [[nodiscard]] Result<void> kill(const std::string& id, EndReason reason);

  // When tick() is due next, and what it does: ends what is over its time, reaps what has ended.
  [[nodiscard]] std::optional<TimePoint> next_check() const;
  void tick();

  // Idle work: slots, networks, and whole blank sandboxes of the kind that was asked for last.
  // False when there is none.
  [[nodiscard]] bool refill();

  [[nodiscard]] const HostFeatures& host() const noexcept { return tier_->host(); }

 private:
  struct Live {
    native::Sandbox sandbox;
    Limits limits;
    TimePoint started;
    std::optional<TimePoint> due;  // as it stands in due_
    EndReason end = EndReason::Running;
    bool frozen = false;
    std::string detail;
  };

  // A sandbox that nobody has asked for yet: made in idle time, handed out when a request fits.
  struct Blank {
    LaunchRequest request;
    native::Launched launched;
  };

  explicit LauncherCore(std::unique_ptr<native::NativeTier> tier) : tier_(std::move(tier)) {}
  [[nodiscard]] Result<Live*> find(const std::string& id);
  [[nodiscard]] Record record_of(const LaunchRequest& request) const;
  [[nodiscard]] Result<native::Launched> launch_or_take(const LaunchRequest& request,
                                                        std::vector<UniqueFd> folders);
  [[nodiscard]] Result<native::Launched> take_blank(const LaunchRequest& request);
  [[nodiscard]] bool make_blank();
  void check_time(Live& live);
  void reap(Live& live);
  void arm(Live& live);
  void disarm(Live& live);

  // The tier outlives its sandboxes: it stands first.
  std::unique_ptr<native::NativeTier> tier_;
  std::vector<Blank> blanks_;
  std::optional<LaunchRequest> wanted_;  // what blanks are made like
  std::map<std::string, Live, std::less<>> live_;
  std::set<std::pair<TimePoint, std::string>>
      due_;  // so that a look at the clock costs the same with a thousand alive
};

}  // namespace caisson::engine
