// The part of the core that keeps file state: layers, seals, stacks, volumes.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/launcher/core.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/raw.h"

namespace caisson::engine {
namespace {

using native::Pool;

constexpr seconds kEndWait{2};
constexpr milliseconds kLookAgain{1};
constexpr std::uint64_t kVolumeBytesMin = 1ULL << 20U;

const char* folder_of(StoreEntry::Kind kind) {
  switch (kind) {
    case StoreEntry::Kind::Layer:
      return Pool::kLayers;
    case StoreEntry::Kind::Upper:
      return Pool::kUppers;
    case StoreEntry::Kind::Volume:
      return Pool::kVolumes;
    case StoreEntry::Kind::Memory:
      return Pool::kMemories;
  }
  return Pool::kLayers;
}

bool has(const LayerStack& stack, const std::string& layer) {
  return std::ranges::find(stack.layers, layer) != stack.layers.end();
}

}  // namespace

Result<PoolFacts> LauncherCore::pool() { return TRY(tier_->pool())->facts(); }

Result<Sealed> LauncherCore::seal(const std::string& id, const std::string& layer) {
  TRY(check_store_name(layer, "layer"));
  Live* live = TRY(find(id));
  reap(*live);
  if (live->end != EndReason::Running) return failure(Errc::Gone, "sandbox '" + id + "' has ended");
  if (live->standing && !live->standing->kept)
    return failure(Errc::Busy, "the sandbox's memory is being saved; try again");
  if (live->request.tier == policy::SandboxTier::Microvm) {
    return failure(Errc::Unsupported,
                   "a snapshot of what a microVM has on its disk is not available in this version");
  }
  using Rest = native::NativeTier::Rest;
  const bool silent = std::exchange(live->silence, Live::Silence::None) == Live::Silence::Kept;
  auto sealed = tier_->seal(live->sandbox, live->request, layer,
                            live->standing ? Rest::Held
                            : silent       ? Rest::Silent
                                           : Rest::None);
  if (!sealed && silent) live->sandbox.release();  // once more does no harm
  return sealed;
}

// init kills, because it must know which groups were; it also reaps, and until it has, the dead
// still count.
Result<void> LauncherCore::end_processes(Live& live) {
  TRY(live.sandbox.end_processes());
  const TimePoint deadline = Clock::now() + kEndWait;
  while (TRY(live.sandbox.groups().members()).size() > 1) {
    if (Clock::now() >= deadline) return failure(Errc::Busy, "the sandbox's processes do not end");
    (void)TRY(sys::wait_ready(live.sandbox.pidfd(), POLLIN, Clock::now() + kLookAgain));
  }
  return {};
}

Result<void> LauncherCore::restack(const std::string& id, const LayerStack& stack,
                                   bool end_processes) {
  TRY(check_stack(stack, "stack"));
  Live* live = TRY(find(id));
  reap(*live);
  if (live->end != EndReason::Running) return failure(Errc::Gone, "sandbox '" + id + "' has ended");
  if (is_carried(live->request)) {
    return failure(Errc::Unsupported,
                   "another root under a living sandbox needs the native tier; start it anew");
  }
  if (stack.host != live->request.stack.host)
    return failure(Errc::InvalidArgument, "stack: a sandbox keeps what lies below its layers");
  if (live->frozen) return failure(Errc::Busy, "the sandbox is paused; resume it first");
  if (end_processes) TRY(this->end_processes(*live));
  return tier_->restack(live->sandbox, live->request, stack);
}

Result<std::uint64_t> LauncherCore::commit_layer(const std::string& id, const std::string& layer) {
  TRY(check_store_name(layer, "layer"));
  Live* live = TRY(find(id));
  Pool* store = TRY(tier_->pool());
  const std::string made = Pool::kMaking + id;
  if (live->request.program != Program::Layer || !store->has(made))
    return failure(Errc::InvalidArgument, "sandbox '" + id + "' makes no layer");
  TRY(stop(id));
  const std::string place = Pool::kLayers + layer;
  const auto bytes = store->bytes(made);
  const auto named = store->rename(made, place);
  if (!named) {
    (void)store->remove(made);
    if (named.error().code != Errc::AlreadyExists) return std::unexpected(named.error());
  }
  return bytes ? *bytes : 0;
}

bool LauncherCore::uses(const LaunchRequest& request, StoreEntry::Kind kind,
                        const std::string& name) const {
  if (kind == StoreEntry::Kind::Upper) return request.id == name;
  if (kind == StoreEntry::Kind::Memory) return false;  // what goes on has read it
  if (kind == StoreEntry::Kind::Layer && has(request.stack, name)) return true;
  return std::ranges::any_of(request.store_mounts, [&](const StoreMount& mount) {
    if (kind == StoreEntry::Kind::Volume)
      return mount.kind == StoreMount::Kind::Volume && mount.name == name;
    return has(mount.stack, name) || (mount.kind == StoreMount::Kind::Layer && mount.name == name);
  });
}

Result<void> LauncherCore::drop(StoreEntry::Kind kind, const std::string& name) {
  TRY(check_store_name(name, "name"));
  Pool* store = TRY(tier_->pool());
  for (const auto& [id, live] : live_) {
    const bool stands =
        kind == StoreEntry::Kind::Memory && live.standing && live.standing->memory == name;
    if (stands || uses(live.request, kind, name))
      return failure(Errc::Busy, fmt::format("'{}' is in use by sandbox '{}'", name, id));
  }
  // A blank is nobody's: it goes when what it stands on is to go.
  for (auto at = blanks_.begin(); at != blanks_.end();) {
    if (!uses(at->request, kind, name)) {
      ++at;
      continue;
    }
    if (kind == StoreEntry::Kind::Upper) return failure(Errc::Busy, "'" + name + "' is in use");
    (void)tier_->destroy(std::move(at->launched.sandbox));
    at = blanks_.erase(at);
  }
  demand_.forget([&](const LaunchRequest& one) { return uses(one, kind, name); });
  const std::string path = folder_of(kind) + name;
  if (!store->has(path)) return failure(Errc::NotFound, "'" + name + "' is not in the store");
  return store->remove(path);
}

Result<std::vector<StoreEntry>> LauncherCore::stored() {
  const Pool* store = TRY(tier_->pool());
  auto all = TRY(store->list());
  std::erase_if(all, [this](const StoreEntry& entry) {
    return entry.kind == StoreEntry::Kind::Upper &&
           std::ranges::any_of(blanks_,
                               [&](const Blank& blank) { return blank.request.id == entry.name; });
  });
  return all;
}

Result<void> LauncherCore::set_volume(const std::string& name, std::uint64_t bytes_max) {
  TRY(check_store_name(name, "volume"));
  if (bytes_max < kVolumeBytesMin)
    return failure(Errc::InvalidArgument, "volume: want a limit of 1 MiB or more");
  Pool* store = TRY(tier_->pool());
  const std::string path = Pool::kVolumes + name;
  if (store->has(path)) return store->limit(path, bytes_max);
  TRY(store->make(path, bytes_max));
  // Its users are others in each sandbox. Of those no one has the id of init: the first who mounts
  // it becomes its owner.
  if (::fchmodat(store->root(), path.c_str(), 0777, 0) != 0 ||
      ::fchownat(store->root(), path.c_str(), native::kStoreBase + kInitId,
                 native::kStoreBase + kInitId, AT_SYMLINK_NOFOLLOW) != 0)
    return sys_failure("open the volume", errno);
  return {};
}

namespace {

// A child that does `work` with the one descriptor it needs, and ends with what that says.
template <class Work>
Result<sys::Child> start_errand(int needed, Work work) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return sys_failure("fork", errno);
  if (pid == 0) {
    sys::become_errand(parent, std::span(&needed, 1));
    ::_exit(work());
  }
  UniqueFd pidfd(sys::raw::pidfd_open(pid));
  if (!pidfd) return sys_failure("watch a child", errno);
  return sys::Child::adopt(pid, TRY(sys::park(std::move(pidfd))));
}

}  // namespace

Result<std::optional<sys::Child>> LauncherCore::start_hold(const std::string& id) {
  Live* live = TRY(find(id));
  reap(*live);
  if (live->end != EndReason::Running || live->frozen || live->standing ||
      !is_carried(live->request))
    return std::nullopt;
  if (live->silence == Live::Silence::Asked)
    return failure(Errc::Busy, "the sandbox is being made silent already; try again");
  native::Sandbox& sandbox = live->sandbox;
  auto child = TRY(start_errand(sandbox.control(), [&sandbox] { return sandbox.hold() ? 0 : 1; }));
  live->silence = Live::Silence::Asked;
  return child;
}

Result<void> LauncherCore::end_hold(const std::string& id, bool silent) {
  Live* live = TRY(find(id));
  if (live->silence != Live::Silence::Asked)
    return failure(Errc::Protocol, "nobody asked sandbox '" + id + "' to be silent");
  live->silence = silent ? Live::Silence::Kept : Live::Silence::None;
  if (silent) return {};
  live->sandbox.release();
  return failure(Errc::Busy, "its init does not answer");
}

void LauncherCore::release(const std::string& id) {
  const auto live = find(id);
  if (!live || (*live)->silence != Live::Silence::Kept) return;
  (*live)->silence = Live::Silence::None;
  (*live)->sandbox.release();
}

Result<sys::Child> LauncherCore::start_sync() {
  const int root = TRY(tier_->pool())->root();
  return start_errand(root, [root] { return ::syncfs(root) == 0 ? 0 : 1; });
}

Result<sys::Child> LauncherCore::start_reclaim(const std::string& id) {
  const Live* live = TRY(find(id));
  const auto how = TRY_IN("reclaim " + id, live->sandbox.groups().open_reclaim());
  const int file = how.file.get();
  // That the kernel had less to give than it was asked for is no failure.
  return start_errand(file, [&how, file] {
    for (std::uint64_t i = 0; i < how.times; ++i) {
      if (::write(file, how.words.data(), how.words.size()) < 0) break;
    }
    return 0;
  });
}

}  // namespace caisson::engine
