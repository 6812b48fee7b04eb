// control/layer_works.h — runs one job on layers: a sandbox with caisson-layer in it, the job's
// words, its answers, and a new layer or nothing. Whatever happens, no sandbox stays behind.
//
// It also knows which layers must not be dropped now: those that a call under way is about to use,
// or has made and not yet recorded (Hold).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/layer_answers.h"
#include "control/turns.h"
#include "engine/channel/launcher_channel.h"

namespace caisson::control {

using boost::asio::awaitable;

inline constexpr std::size_t kUnpacksMax = 2;        // at once
inline constexpr std::size_t kJobsMax = 4;           // of every kind, at once
inline constexpr milliseconds kLayerStall{120'000};  // without a word
inline constexpr std::uint64_t kJobMemoryBytes = 1ULL << 30U;
inline constexpr seconds kJobLife{3600};

struct LayerJob {
  wire::JobKind kind{};
  std::uint32_t flags = 0;
  std::uint64_t bytes_max = 0;
  std::uint64_t entries_max = 0;
  std::uint32_t ratio_max = 0;
  std::uint32_t layers = 0;  // in/N, a.in/N, b.in/N: as in the protocol
  std::uint32_t a_layers = 0;
  std::uint32_t b_layers = 0;
  std::string prefix;
  std::vector<engine::StoreMount> mounts;
  UniqueFd file;                 // descriptor 0 of Unpack, Pack and Sanitise
  UniqueFd out;                  // descriptor 1 of Sanitise: an empty file, good when the job is
  std::size_t entries_kept = 0;  // of what it tells
  std::string layer;             // the name of what it makes; empty: it makes none
  // Is what it made to be kept? An error is the job's. By default it is.
  std::function<Result<bool>(const LayerOutcome&)> keep;
  std::function<void(const wire::LayerProgress&)> progress;
};

struct LayerResult {
  LayerOutcome outcome;
  bool kept = false;
  std::uint64_t bytes = 0;  // of the new layer
};

class LayerWorks {
 public:
  explicit LayerWorks(boost::asio::any_io_executor executor, milliseconds stall = kLayerStall);
  ~LayerWorks();
  LayerWorks(const LayerWorks&) = delete;
  LayerWorks& operator=(const LayerWorks&) = delete;

  // Before the first job. The launcher outlives every job.
  void use(engine::LauncherChannel& launcher) noexcept { core_->launcher = &launcher; }
  // No job begins any more, and those under way end as they can.
  void close() noexcept {
    core_->launcher = nullptr;
    held_->released = nullptr;
  }

  awaitable<Result<LayerResult>> run(LayerJob job);
  // For one whose sandbox stands still meanwhile, and must not while others work: first the turn.
  awaitable<Result<Turns::Turn>> job_turn() { return jobs_.take(); }
  awaitable<Result<LayerResult>> run(LayerJob job, Turns::Turn turn);

  // --- layers in use.
  struct Held {
    std::map<std::string, std::size_t> counts;
    std::function<void(const std::string&)> released;
  };
  class Hold {
   public:
    Hold() = default;
    Hold(std::shared_ptr<Held> held, std::vector<std::string> names);
    Hold(Hold&&) noexcept = default;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold();

   private:
    void let_go() noexcept;
    std::shared_ptr<Held> held_;
    std::vector<std::string> names_;
  };
  [[nodiscard]] Hold hold(std::vector<std::string> names) const {
    return {held_, std::move(names)};
  }
  [[nodiscard]] bool held(const std::string& name) const { return held_->counts.contains(name); }
  // Called when nobody holds a layer any more.
  void on_release(std::function<void(const std::string& name)> call) {
    held_->released = std::move(call);
  }
  // Sandboxes that are ours and nobody else knows.
  [[nodiscard]] bool owns(const std::string& id) const { return core_->boxes.contains(id); }

  // One at a time for each name; a second waits for the first and then looks again.
  [[nodiscard]] Turns& unpacks() noexcept { return unpacks_; }
  awaitable<Result<Turns::Turn>> alone(std::string name);

 private:
  struct Core {
    boost::asio::any_io_executor executor;
    engine::LauncherChannel* launcher = nullptr;
    milliseconds stall{};
    std::set<std::string> boxes;
  };
  class Box;
  static awaitable<Result<LayerOutcome>> talk(std::shared_ptr<Core> core, UniqueFd stream,
                                              const LayerJob& job);

  std::shared_ptr<Core> core_;
  std::shared_ptr<Held> held_;
  std::map<std::string, std::shared_ptr<Turns>> alone_;
  Turns unpacks_;
  Turns jobs_;
};

}  // namespace caisson::control
