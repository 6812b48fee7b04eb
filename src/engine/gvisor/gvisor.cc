#include "engine/gvisor/gvisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <utility>

#include "engine/gvisor/box.h"
#include "engine/gvisor/bundle.h"
#include "engine/native/tier.h"
#include "guest/init_blob.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/namespace.h"

namespace caisson::engine::gvisor {
namespace {

constexpr std::size_t kReasonBytesMax = 1024;

// With a bundle in it.
Result<UniqueFd> make_bundle(const native::Slot& slot, const std::string& config,
                             std::size_t mounts) {
  std::vector<std::string> folders{"proc", "dev", "tmp", kImage, "b", "b/root", "b/dev"};
  for (std::size_t i = 0; i < mounts; ++i)
    folders.push_back(std::string(kMountFolder.substr(1)) + std::to_string(i));
  UniqueFd root = TRY(make_box(slot, folders));
  const sys::ModeMask no_mask(0);
  const sys::FsIdentity identity(slot.ids.host_uid(0));
  TRY(write_file(root.get(), "b/config.json", std::as_bytes(std::span(config)), 0444));
  TRY(write_file(root.get(), "b/dev/caisson-init", {}, 0444));
  TRY(write_file(root.get(), std::string(kInitFile.substr(1)), guest::init_program(), 0555));
  return root;
}

// The guest's tree below the bundle, and what is a mount of its own beside it.
std::vector<native::Mounted> place(native::Rootfs& files, std::vector<std::string>& own_places,
                                   const LaunchRequest& request) {
  std::vector<std::string> places;
  for (const native::Mounted& one : files.mounts) places.push_back(one.target);
  const std::vector<bool> own = mounts_of_their_own(request, places);
  const std::string root(kRootFolder.substr(1));
  const std::string beside(kMountFolder.substr(1));
  std::vector<native::Mounted> out;
  out.push_back({root, std::move(files.root)});
  for (std::size_t i = 0; i < files.mounts.size(); ++i) {
    // runsc makes no place for a mount: the folder that one lies on is in ours.
    const bool holds_place = std::ranges::any_of(
        places, [&](const std::string& one) { return one.starts_with(places[i] + "/"); });
    if (is_scratch(request, places[i]) && !holds_place) continue;
    std::string target = root + "/" + places[i];
    if (own[i]) {
      target = beside + std::to_string(own_places.size());
      own_places.push_back(places[i]);
    }
    out.push_back({std::move(target), std::move(files.mounts[i].mount)});
  }
  return out;
}

}  // namespace

Result<const Runsc*> GvisorTier::runsc() {
  if (runsc_) return &*runsc_;
  // The launcher's own folder, which nobody else can enter.
  const auto memory = sys::open_at(AT_FDCWD, state_dir_ + "/launcher", O_RDONLY | O_DIRECTORY);
  runsc_ = TRY(examine(memory ? memory->get() : -1));
  return &*runsc_;
}

Result<TierFacts> GvisorTier::facts() {
  const Runsc* found = TRY(runsc());
  return TierFacts{fmt::format("gVisor {} ({})", found->version, found->platform)};
}

Result<void> GvisorTier::check(const LaunchRequest& request) {
  for (const StoreMount& mount : request.store_mounts) {
    if (mount.kind == StoreMount::Kind::Volume) continue;
    return caisson::failure(Errc::Unsupported, "gvisor: layers are worked on in the native tier");
  }
  return {};
}

// As for the native tier, but for /dev and /proc. The scratch folders are there because the places
// of folders below them are; this kernel puts its own over them.
Result<native::Rootfs> GvisorTier::files(const CarriedFiles& wish) {
  return native::build_rootfs(wish.request, wish.slot, wish.folders, wish.sources,
                              native::Scope::Carried);
}

Result<UniqueFd> GvisorTier::start(CarriedPart part) {
  const Runsc* found = TRY(runsc());
  const native::Slot& slot = part.sandbox.slot();
  // Its two processes get namespaces of their own, which the slot's own does not allow.
  auto pending = TRY(sys::PendingNamespace::start_user(slot.ids.users(), slot.ids.groups(),
                                                       sys::NestedNamespaces::Allowed,
                                                       slot.ids.host_uid(kInitId)));
  native::PartProgram program;
  std::vector<std::string> own;
  program.mounts = place(part.files, own, part.request);
  program.mounts.push_back({"dev", TRY(part.native.device_folder())});
  program.root = TRY(make_bundle(slot, bundle(part.request, own), own.size()));
  // The place for init, which is bound below a /dev that hides it.
  program.mounts.push_back({std::string(kRootFolder.substr(1)) + "/dev",
                            TRY(sys::clone_mount(program.root.get(), "b/dev", sys::kMountNoSuid))});
  UniqueFd trace = TRY(sys::open_at(program.root.get(), ".", O_RDONLY | O_DIRECTORY));
  program.program = found->program.get();
  program.arguments = arguments(*found);
  if (part.memory >= 0) {
    program.mounts.push_back(
        {kImage, TRY(part.native.memory_mount(slot, part.request.memory.name))});
    add_words(program.arguments,
              {"restore", "--detach", "--image-path=/image", "--bundle=/b", kName});
    // Its kernel draws on the host's random numbers. Before anybody is told of it, it has its name.
    if (!part.request.memory.same) TRY(tell_identity(part.sandbox, part.request));
  } else {
    add_words(program.arguments, {"run", "--detach", "--bundle=/b", kName});
  }
  program.environment = {"PATH=/"};
  program.capabilities = kRunscCapabilities;
  // Not the null device: a kernel that gives up says why there, and nowhere else. The folder bounds
  // what that can be.
  const UniqueFd words = TRY(sys::open_at(trace.get(), kWords, O_WRONLY | O_CREAT, 0600));
  program.descriptors = {{part.stream.get(), 0}, {part.stream.get(), 1}, {words.get(), 2}};
  const UniqueFd users = TRY(pending.finish());
  program.user_namespace = users.get();
  TRY(part.native.start_part(part.sandbox, program));
  return trace;
}

namespace {

std::string first_line(int folder, const char* name) {
  const auto file = sys::open_beneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  if (!file) return {};
  std::string text(kReasonBytesMax, '\0');
  const ssize_t got = ::pread(file->get(), text.data(), text.size(), 0);
  if (got <= 0) return {};
  text.resize(static_cast<std::size_t>(got));
  return text.substr(0, text.find('\n'));
}

// An error as it logs it: a line of JSON.
std::string message_of(const std::string& line) {
  boost::system::error_code wrong;
  const boost::json::value value = boost::json::parse(line, wrong);
  if (wrong || !value.is_object()) return line;
  const auto* message = value.get_object().if_contains("msg");
  if (message == nullptr || !message->is_string()) return line;
  return std::string(message->get_string());
}

}  // namespace

// It was written by processes that the guest may have had in hand: text that is shown, and nothing
// else.
std::string GvisorTier::failure(int trace) {
  std::string reason = message_of(first_line(trace, kLog));
  if (reason.empty()) reason = first_line(trace, kWords);
  if (reason.empty()) return {};
  std::ranges::replace_if(
      reason, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return "runsc: " + reason;
}

}  // namespace caisson::engine::gvisor
