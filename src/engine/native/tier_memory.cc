// Memory of sandboxes that is kept, and goes on: see carried_tier.h for what a tier does with it.
#include <fcntl.h>
#include <poll.h>

#include <utility>

#include "engine/microvm/sha256.h"
#include "engine/native/tier.h"
#include "guest/init_blob.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/socket.h"

namespace caisson::engine::native {
namespace {

constexpr std::uint64_t kMemoryDefault = 4ULL << 30U;   // of a sandbox without a limit
constexpr std::uint64_t kMemoryBeside = 256ULL << 20U;  // of what runs it, and what is around it
constexpr std::size_t kFingerprintChars = 16;
constexpr std::size_t kCarrierAlone = 1;
constexpr seconds kEndWait{2};
constexpr milliseconds kLookAgain{1};

// What one memory may be on disk: that of the sandbox, and its files where they are in it.
std::uint64_t bytes_max(const LaunchRequest& request) {
  const std::uint64_t memory =
      request.limits.memory_bytes != 0 ? request.limits.memory_bytes : kMemoryDefault;
  return memory + request.limits.disk_bytes + kMemoryBeside;
}

MemorySave save_of(NativeTier& tier, const NativeTier::Saving& wish, int folder) {
  return {tier, wish.request, wish.sandbox, wish.name, folder, wish.after};
}

// What ran beside the carrier is gone, and so are its mounts: others may take their place.
Result<void> wait_for_carrier_alone(Sandbox& sandbox) {
  const TimePoint deadline = Clock::now() + kEndWait;
  while (TRY(sandbox.groups().members()).size() > kCarrierAlone) {
    if (Clock::now() >= deadline) return failure(Errc::Busy, "its kernel does not end");
    if (TRY(sys::wait_ready(sandbox.pidfd(), POLLIN, Clock::now() + kLookAgain)))
      return failure(Errc::Gone, "the sandbox has ended");
  }
  return {};
}

}  // namespace

Result<std::string> NativeTier::memory_runtime(const LaunchRequest& request) {
  if (request.tier == policy::SandboxTier::Native) {
    return failure(
        Errc::Unsupported,
        "memory: the tier 'native' keeps files and not processes in this version; create "
        "the sandbox with tier gvisor");
  }
  if (!request.folders.empty()) {
    return failure(Errc::Unsupported,
                   "memory: a sandbox that shows folders of the host cannot be kept");
  }
  CarriedTier* tier = TRY(carried(request.tier));
  std::string runtime = TRY(tier->memory_runtime(request));
  // Its text is part of every memory, and is read again from its file.
  if (init_fingerprint_.empty())
    init_fingerprint_ = microvm::sha256(guest::init_program()).substr(0, kFingerprintChars);
  runtime += "; init " + init_fingerprint_;
  TRY(need_image());
  if (request.stack.host) runtime += "; host " + image_->skeleton;
  return runtime;
}

Result<UniqueFd> NativeTier::memory_folder(const std::string& name) {
  TRY(check_store_name(name, "memory"));
  Pool* store = TRY(pool());
  return sys::open_beneath(store->root(), Pool::kMemories + name, O_RDONLY | O_DIRECTORY);
}

Result<UniqueFd> NativeTier::memory_mount(const Slot& slot, const std::string& name) {
  TRY(check_store_name(name, "memory"));
  TRY(pool());
  const Stage::Scope staged(stage_);
  const RootfsSources sources = rootfs_sources();
  StoreView view(slot, sources.store);
  const UniqueFd folder = TRY(view.open(Pool::kMemories + name));
  return sys::clone_mount(folder.get(), "",
                          sys::kMountNoSuid | sys::kMountNoDev | sys::kMountNoExec);
}

Result<sys::Child> NativeTier::save(const Saving& wish) {
  TRY(memory_runtime(wish.request));
  CarriedTier* tier = TRY(carried(wish.request.tier));
  Pool* store = TRY(pool());
  const std::string path = Pool::kMemories + wish.name;
  TRY_IN("memory", store->make(path, store->limits() ? bytes_max(wish.request) : 0));
  const auto attempt = [&]() -> Result<sys::Child> {
    TRY(supply_.fetch(wish.sandbox.slot(), wish.sandbox.init_pid()));
    const Supply::PutBy put_by{supply_, wish.sandbox.slot()};
    const UniqueFd folder = TRY(memory_folder(wish.name));
    if (!wish.silent) TRY(wish.sandbox.hold());
    auto begun = tier->save(save_of(*this, wish, folder.get()));
    if (!begun) wish.sandbox.release();
    return begun;
  };
  auto begun = attempt();
  if (!begun) (void)store->remove(path);
  return begun;
}

Result<MemoryKept> NativeTier::saved(const Saving& wish, bool whole) {
  CarriedTier* tier = TRY(carried(wish.request.tier));
  const auto attempt = [&]() -> Result<MemoryKept> {
    const UniqueFd folder = TRY(memory_folder(wish.name));
    const MemoryKept kept = TRY(tier->saved(save_of(*this, wish, folder.get()), whole));
    if (kept.ended) TRY(wait_for_carrier_alone(wish.sandbox));
    return kept;
  };
  auto kept = attempt();
  if (kept) return kept;
  const auto on = go_on(wish, {});
  if (const auto store = pool()) (void)(*store)->remove(Pool::kMemories + wish.name);
  if (!on) return failure(Errc::Gone, kept.error().message);
  return kept;
}

Result<void> NativeTier::go_on(const Saving& wish, const MemoryKept& kept) {
  CarriedTier* tier = TRY(carried(wish.request.tier));
  Result<void> done;
  if (kept.ended) {
    done = carry_anew(wish, *tier);
  } else {
    const UniqueFd folder = TRY(memory_folder(wish.name));
    done = tier->go_on(save_of(*this, wish, folder.get()));
  }
  wish.sandbox.release();
  if (!done) (void)wish.sandbox.kill();
  return done;
}

// The carrier stays, and with it the server's stream and what was told of processes: it hears
// where its init goes on. The files are those that it had.
Result<void> NativeTier::carry_anew(const Saving& wish, CarriedTier& tier) {
  const Stage::Scope staged(stage_);
  TRY(supply_.fetch(wish.sandbox.slot(), wish.sandbox.init_pid()));
  const Supply::PutBy put_by{supply_, wish.sandbox.slot()};
  LaunchRequest again = wish.request;
  again.resume = true;
  again.memory = {wish.name, {}, {}, true};
  RootfsSources sources = rootfs_sources();
  sources.layer = wish.sandbox.layer();
  Rootfs files = TRY(tier.files({again, wish.sandbox.slot(), {}, sources}));
  for (UniqueFd& one : files.spent) one = TRY(sys::park(std::move(one)));
  supply_.spend(std::move(files.spent));
  files.layer.reset();
  sys::SocketPair carried = TRY(sys::stream_pair());
  TRY(wish.sandbox.carry(carried.ours.get()));
  const UniqueFd memory = TRY(memory_folder(wish.name));
  CarriedPart part{*this,       again, wish.sandbox, std::move(carried.theirs), std::move(files),
                   memory.get()};
  UniqueFd trace = TRY_IN(tier_name(again.tier), tier.start(std::move(part)));
  if (trace) wish.sandbox.keep_trace(TRY(sys::park(std::move(trace))));
  return {};
}

}  // namespace caisson::engine::native
