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

#include "engine/gvisor/bundle.h"
#include "engine/native/tier.h"
#include "guest/init_blob.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/namespace.h"

namespace caisson::engine::gvisor {
namespace {

// By number, because the names are a kernel header's. What runsc needs to build the walls of its
// two processes, in the user namespace of this one sandbox.
enum : unsigned {
  kChown = 0,
  kDacOverride = 1,
  kDacReadSearch = 2,
  kFowner = 3,
  kFsetid = 4,
  kKill = 5,
  kSetgid = 6,
  kSetuid = 7,
  kSetpcap = 8,
  kSysChroot = 18,
  kSysPtrace = 19,
  kSysAdmin = 21,
};
constexpr std::uint64_t bit(unsigned capability) { return 1ULL << capability; }
constexpr std::uint64_t kRunscCapabilities = bit(kChown) | bit(kDacOverride) | bit(kDacReadSearch) |
                                             bit(kFowner) | bit(kFsetid) | bit(kKill) |
                                             bit(kSetgid) | bit(kSetuid) | bit(kSetpcap) |
                                             bit(kSysChroot) | bit(kSysPtrace) | bit(kSysAdmin);

constexpr const char* kName = "box";
constexpr const char* kLog = "state/log";
constexpr const char* kWords = "words";
constexpr std::size_t kReasonBytesMax = 1024;
constexpr const char* kFolderBytes = "8388608";
constexpr const char* kFolderFiles = "512";

Result<void> write_file(int dir, const std::string& name, std::span<const std::byte> content,
                        unsigned mode) {
  const UniqueFd file =
      TRY(sys::open_at(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
  const ssize_t put = ::write(file.get(), content.data(), content.size());
  if (put < 0 || static_cast<std::size_t>(put) != content.size())
    return sys_failure("write " + name, put < 0 ? errno : ENOSPC);
  return {};
}

// All that runsc and its processes see, but for the guest's tree.
Result<UniqueFd> make_folder(const native::Slot& slot, const std::string& config,
                             std::size_t mounts) {
  const std::uint32_t owner = slot.ids.host_uid(0);
  UniqueFd root = TRY(sys::new_mount("tmpfs",
                                     {{"size", kFolderBytes},
                                      {"nr_inodes", kFolderFiles},
                                      {"mode", "0755"},
                                      {"uid", std::to_string(owner)},
                                      {"gid", std::to_string(owner)}},
                                     sys::kMountNoSuid | sys::kMountNoDev));
  const sys::ModeMask no_mask(0);
  const sys::FsIdentity identity(owner);
  const UniqueFd folder = TRY(sys::open_at(root.get(), ".", O_RDONLY | O_DIRECTORY));
  for (const char* name : {"proc", "dev", "tmp", "b", "b/root", "b/dev"})
    TRY(sys::make_dir(folder.get(), name, 0755, sys::Existing::Refuse));
  TRY(sys::make_dir(folder.get(), "state", 0700, sys::Existing::Refuse));
  for (std::size_t i = 0; i < mounts; ++i) {
    TRY(sys::make_dir(folder.get(), std::string(kMountFolder.substr(1)) + std::to_string(i), 0755,
                      sys::Existing::Refuse));
  }
  TRY(write_file(folder.get(), "b/config.json", std::as_bytes(std::span(config)), 0444));
  TRY(write_file(folder.get(), "b/dev/caisson-init", {}, 0444));
  TRY(write_file(folder.get(), std::string(kInitFile.substr(1)), guest::init_program(), 0555));
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
    if (places[i] == "dev/shm") continue;
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
  program.root = TRY(make_folder(slot, bundle(part.request, own), own.size()));
  // The place for init, which is bound below a /dev that hides it.
  program.mounts.push_back({std::string(kRootFolder.substr(1)) + "/dev",
                            TRY(sys::clone_mount(program.root.get(), "b/dev", sys::kMountNoSuid))});
  UniqueFd trace = TRY(sys::open_at(program.root.get(), ".", O_RDONLY | O_DIRECTORY));
  program.program = found->program.get();
  program.arguments = {"runsc", "--root=/state", "--log=/" + std::string(kLog),
                       "--log-format=json"};
  program.arguments.insert(program.arguments.end(), found->flags.begin(), found->flags.end());
  for (const char* word : {"run", "--detach", "--bundle=/b", kName})
    program.arguments.emplace_back(word);
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
