// engine/channel — the ends of the engine that a server holds: coroutines on one I/O thread.
// launcher_channel.h asks the launcher, guest_channel.h drives one sandbox's init. Both answer
// every waiting call at once when the other side goes. Never here: tenants, policies, HTTP.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/launcher/answers.h"
#include "engine/launcher/living.h"
#include "engine/layers.h"

namespace caisson::engine {

using boost::asio::awaitable;

// A fresh stream to a living init; what an older server had is cut.
struct Joined {
  UniqueFd stream;
  Nonce nonce{};
};

class LauncherChannel {
 public:
  struct Watcher {
    // A sandbox ended by itself: by a deadline, a limit, or because its init died.
    std::function<void(const std::string& id, const Status&)> on_ended;
    // The worker is gone, and all its sandboxes with it. The channel goes on by itself when the
    // keeper has started a new one: until then every call is LauncherGone.
    std::function<void()> on_lost;
    std::function<void()> on_back;
  };
  // `path` is the launcher's socket. Connects, says hello, watches.
  [[nodiscard]] static Result<std::unique_ptr<LauncherChannel>> open(
      boost::asio::any_io_executor executor, std::string path, Watcher watcher);
  virtual ~LauncherChannel() = default;

  virtual awaitable<Result<LaunchReply>> launch(LaunchRequest request,
                                                std::vector<UniqueFd> folders) = 0;
  virtual awaitable<Result<Joined>> join(std::string id) = 0;
  virtual awaitable<Result<Status>> destroy(std::string id) = 0;
  // destroy() that leaves the writable layer on disk (Storage::Disk), for a launch with `resume`.
  virtual awaitable<Result<Status>> stop(std::string id) = 0;
  virtual awaitable<Result<Status>> status(std::string id) = 0;
  virtual awaitable<Result<void>> freeze(std::string id) = 0;
  virtual awaitable<Result<void>> thaw(std::string id) = 0;
  // Takes back what the kernel can of a frozen one's memory, as long as that takes; what it holds
  // then.
  virtual awaitable<Result<Status>> reclaim(std::string id) = 0;
  virtual awaitable<Result<void>> set_limits(std::string id, Limits limits) = 0;
  virtual awaitable<Result<std::vector<Living>>> living() = 0;
  // A TCP socket that belongs to the sandbox's network, not connected.
  virtual awaitable<Result<UniqueFd>> socket_inside(std::string id, int family) = 0;
  // The sockets of the sandbox's way out, when launch() brought none; `proxy` as in a request's
  // gate_proxy.
  virtual awaitable<Result<GateSockets>> open_gate(std::string id, std::vector<std::uint16_t> ports,
                                                   std::uint16_t proxy) = 0;

  // --- file state (engine/layers.h). The store is made at the first of these calls.
  virtual awaitable<Result<PoolFacts>> pool() = 0;
  // Makes what the sandbox has written since its last seal a layer of that name, on top of what its
  // stack was. Stacked where nothing but init runs, else Cow. Busy, naming the remedy, where
  // neither can be had: the caller may then freeze it and copy its Upper by a Program::Layer.
  virtual awaitable<Result<Sealed>> seal(std::string id, std::string layer) = 0;
  // Puts a living sandbox on another stack, with an empty writable layer. Busy while anything but
  // init runs in it, unless its processes are to be ended.
  virtual awaitable<Result<void>> restack(std::string id, LayerStack stack, bool end_processes) = 0;
  // The target of a finished Program::Layer becomes a layer, durable; its sandbox goes. That a
  // layer of this name exists already is as good.
  virtual awaitable<Result<std::uint64_t>> commit_layer(std::string id, std::string layer) = 0;
  // Busy while a living sandbox stands on it; NotFound is for the caller to judge.
  virtual awaitable<Result<void>> drop(StoreEntry::Kind kind, std::string name) = 0;
  virtual awaitable<Result<std::vector<StoreEntry>>> stored() = 0;
  // A new volume, or another limit for an old one.
  virtual awaitable<Result<void>> set_volume(std::string name, std::uint64_t bytes_max) = 0;
  // Everything that was sealed before this call outlives a power cut after it.
  virtual awaitable<Result<void>> sync_store() = 0;

  // --- memory (engine/carried_tier.h). Saves that of a sandbox under this name. It stands still
  // from then on, until go_on(), destroy() or stop(); an error means that it goes on. Its `digest`
  // is learned by measure(), which also every launch with a memory needs before it.
  virtual awaitable<Result<SavedMemory>> save_memory(std::string id, std::string memory,
                                                     bool then_ends) = 0;
  virtual awaitable<Result<void>> go_on(std::string id) = 0;
  virtual awaitable<Result<SavedMemory>> measure(std::string memory) = 0;

  // Ends the launcher, keeper and worker, with every sandbox: the last word of an orderly stop.
  virtual awaitable<Result<void>> stop_launcher() = 0;
  [[nodiscard]] virtual bool connected() const noexcept = 0;
};

}  // namespace caisson::engine
