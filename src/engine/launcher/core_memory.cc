// The part of the core that keeps memories of sandboxes: saving one, making it go on, and judging
// what lies in the store before anybody runs it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/launcher/core.h"
#include "engine/launcher/memory_digest.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/raw.h"

namespace caisson::engine {
namespace {

constexpr std::size_t kMeasuringMax = 64;
constexpr std::size_t kMeasuredMax = 1024;

}  // namespace

Result<sys::Child> LauncherCore::start_save(const std::string& id, const std::string& name,
                                            MemorySave::After after) {
  TRY(check_store_name(name, "memory"));
  Live* live = TRY(find(id));
  reap(*live);
  if (live->end != EndReason::Running) return failure(Errc::Gone, "sandbox '" + id + "' has ended");
  if (live->frozen) return failure(Errc::Busy, "the sandbox is paused; resume it first");
  if (live->standing) return failure(Errc::Busy, "the sandbox's memory is being saved; try again");
  const bool silent = std::exchange(live->silence, Live::Silence::None) == Live::Silence::Kept;
  auto child = tier_->save({live->sandbox, live->request, name, after, silent});
  if (!child && silent) live->sandbox.release();  // once more does no harm
  if (child) live->standing = Live::Standing{name, after, std::nullopt};
  return child;
}

Result<SavedMemory> LauncherCore::end_save(const std::string& id, const std::string& name,
                                           bool whole) {
  const auto found = find(id);
  Live* live = found.value_or(nullptr);
  if (live == nullptr || !live->standing || live->standing->kept ||
      live->standing->memory != name) {
    // It was taken away meanwhile, and nobody will ask for what was saved of it.
    (void)drop(StoreEntry::Kind::Memory, name);
    if (!found) return std::unexpected(found.error());
    return failure(Errc::Gone, "sandbox '" + id + "' ended while it was saved");
  }
  const Live::Standing standing = *live->standing;
  const auto kept =
      tier_->saved({live->sandbox, live->request, standing.memory, standing.after}, whole);
  if (!kept) {
    live->standing.reset();
    if (kept.error().code == Errc::Gone) live->detail = kept.error().message;
    reap(*live);
    return std::unexpected(kept.error());
  }
  live->standing->kept = *kept;
  SavedMemory saved;
  saved.runtime = TRY(tier_->memory_runtime(live->request));
  saved.files = kept->files;
  return saved;
}

Result<void> LauncherCore::go_on(const std::string& id) {
  Live* live = TRY(find(id));
  if (!live->standing) return {};
  if (!live->standing->kept)
    return failure(Errc::Busy, "the sandbox's memory is being saved; try again");
  const Live::Standing standing = *std::exchange(live->standing, std::nullopt);
  reap(*live);
  if (live->end != EndReason::Running) return failure(Errc::Gone, "sandbox '" + id + "' has ended");
  TRY_IN("go on", tier_->go_on({live->sandbox, live->request, standing.memory, standing.after},
                               *standing.kept));
  return {};
}

Result<sys::Child> LauncherCore::start_measure(const std::string& name) {
  if (measuring_.contains(name)) return failure(Errc::Busy, "memory '" + name + "' is measured");
  if (measuring_.size() >= kMeasuringMax)
    return failure(Errc::Exhausted, "too many memories are measured; try again");
  const UniqueFd folder = TRY(tier_->memory_folder(name));
  UniqueFd low = TRY(sys::memory_file("memory-digest"));
  UniqueFd out = TRY(sys::park(std::move(low)));
  const int needed[] = {folder.get(), out.get()};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return sys_failure("fork", errno);
  if (pid == 0) {
    sys::become_errand(parent, needed);
    const auto digest = memory_digest(folder.get());
    ::_exit(digest && sys::write_once(out.get(), to_text(*digest)) ? 0 : 1);
  }
  UniqueFd pidfd(sys::raw::pidfd_open(pid));
  if (!pidfd) return sys_failure("watch a child", errno);
  sys::Child child = sys::Child::adopt(pid, TRY(sys::park(std::move(pidfd))));
  measuring_.emplace(name, std::move(out));
  return child;
}

Result<SavedMemory> LauncherCore::end_measure(const std::string& name) {
  const auto at = measuring_.find(name);
  if (at == measuring_.end()) return failure(Errc::Protocol, "nobody measures '" + name + "'");
  const UniqueFd out = std::move(at->second);
  measuring_.erase(at);
  if (::lseek(out.get(), 0, SEEK_SET) != 0) return sys_failure("read a digest", errno);
  const std::string text = TRY(sys::read_again(out.get()));
  const MemoryDigest digest = TRY(parse_digest(text));
  if (measured_.size() >= kMeasuredMax) measured_.clear();  // whoever waits with one asks again
  measured_[name] = digest.hex;
  SavedMemory found;
  found.bytes = digest.bytes;
  found.digest = digest.hex;
  return found;
}

// A digest is good for one launch: what comes later is measured again.
Result<void> LauncherCore::check_memory(const LaunchRequest& request) {
  if (request.memory.name.empty()) return {};
  const auto at = measured_.find(request.memory.name);
  if (at == measured_.end())
    return failure(Errc::Denied, "memory '" + request.memory.name + "' was not measured");
  const std::string digest = std::move(at->second);
  measured_.erase(at);
  if (digest == request.memory.digest) return {};
  return failure(Errc::Denied, "memory '" + request.memory.name +
                                   "' is not what was saved: somebody has changed it");
}

}  // namespace caisson::engine
