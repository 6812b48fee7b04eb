// Saving the memory of a sandbox: `runsc checkpoint` in a box of its own, beside the kernel that it
// saves. That kernel ends with it, and so does the one that opened files for it; the carrier stays.
// What comes after is `runsc restore`, as a start of the same carrier's or of another one.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/gvisor/box.h"
#include "engine/gvisor/gvisor.h"
#include "engine/native/tier.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/user_namespace.h"

namespace caisson::engine::gvisor {
namespace {

constexpr const char* kSavedFile = "checkpoint.img";
constexpr std::size_t kAlone = 1;  // the carrier

// Where the running kernel is found: nothing but small files, which it has written itself, and so
// they are read as what a guest may have in hand.
Result<void> copy_state(int from, int to) {
  const UniqueFd state = TRY(sys::open_beneath(from, kState, O_RDONLY | O_DIRECTORY));
  const UniqueFd own = TRY(sys::open_at(to, kState, O_RDONLY | O_DIRECTORY));
  for (const std::string& name : TRY(sys::list_dir(state.get(), kStateFilesMax))) {
    if (!name.ends_with(".state") && !name.ends_with(".lock")) continue;
    const UniqueFd file =
        TRY(sys::open_beneath(state.get(), name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW));
    const std::string content = TRY(sys::read_again(file.get(), kStateBytesMax));
    TRY(write_file(own.get(), name, std::as_bytes(std::span(content)), 0600));
  }
  return {};
}

// That of the kernel which is to be saved: from another one it could not even be asked whether it
// lives. Who is in the sandbox's groups is in it, or in one below it.
Result<UniqueFd> users_of(const native::Sandbox& sandbox) {
  const std::string carrier = std::to_string(sandbox.init_pid());
  for (const std::string& member : TRY(sandbox.groups().members())) {
    if (member == carrier) continue;
    auto users = sys::outermost_user_namespace(member);
    const auto still = TRY(sandbox.groups().members());
    // Its number may be another process's by now, if it is not there any more.
    if (users && std::ranges::find(still, member) != still.end()) return users;
  }
  return caisson::failure(Errc::Gone, "its kernel has ended");
}

}  // namespace

Result<std::string> GvisorTier::memory_runtime(const LaunchRequest& request) {
  for (const StoreMount& mount : request.store_mounts) {
    if (mount.kind != StoreMount::Kind::Volume)
      return caisson::failure(Errc::Unsupported, "memory: of a tenant's sandbox alone");
  }
  return TRY(facts()).kernel;
}

Result<sys::Child> GvisorTier::save(const MemorySave& wish) {
  const Runsc* found = TRY(runsc());
  const native::Slot& slot = wish.sandbox.slot();
  const UniqueFd users = TRY(users_of(wish.sandbox));
  const std::vector<std::string> folders{"proc", "dev", "tmp", kImage};
  native::PartProgram program;
  program.root = TRY(make_box(slot, folders));
  {
    const sys::ModeMask no_mask(0);
    const sys::FsIdentity identity(slot.ids.host_uid(0));
    TRY_IN("state of runsc", copy_state(wish.sandbox.trace(), program.root.get()));
  }
  program.mounts.push_back({"dev", TRY(wish.native.device_folder())});
  program.mounts.push_back({kImage, TRY(wish.native.memory_mount(slot, wish.name))});
  UniqueFd low = TRY(sys::open_at(program.root.get(), ".", O_RDONLY | O_DIRECTORY));
  UniqueFd trace = TRY(sys::park(std::move(low)));
  program.program = found->program.get();
  program.arguments = arguments(*found);
  add_words(program.arguments, {"checkpoint", "--image-path=/image", kName});
  program.environment = {"PATH=/"};
  program.capabilities = kRunscCapabilities;
  const UniqueFd words = TRY(sys::open_at(trace.get(), kWords, O_WRONLY | O_CREAT, 0600));
  const int null = TRY(wish.native.null_device());
  program.descriptors = {{null, 0}, {null, 1}, {words.get(), 2}};
  program.user_namespace = users.get();
  sys::Child child = TRY(wish.native.start_errand(wish.sandbox, program));
  saving_[wish.request.id] = std::move(trace);
  return child;
}

Result<MemoryKept> GvisorTier::saved(const MemorySave& wish, bool whole) {
  const UniqueFd trace = std::exchange(saving_[wish.request.id], UniqueFd());
  saving_.erase(wish.request.id);
  const bool there = sys::open_beneath(wish.folder, kSavedFile, O_PATH).has_value();
  if (whole && there) return MemoryKept{true, false};
  const std::string words = trace ? failure(trace.get()) : std::string();
  return caisson::failure(
      Errc::Unsupported,
      fmt::format("memory: gVisor could not save it ({}); a file that was removed while a program "
                  "has it open, or a device, may be why",
                  words.empty() ? "it does not say why" : words));
}

// A kernel that was saved has ended. One that could not be may live: it was not stopped by us.
Result<void> GvisorTier::go_on(const MemorySave& wish) {
  const auto members = wish.sandbox.groups().members();
  if (members && members->size() > kAlone) return {};
  return caisson::failure(Errc::Gone, "its kernel ended while it was saved");
}

}  // namespace caisson::engine::gvisor
