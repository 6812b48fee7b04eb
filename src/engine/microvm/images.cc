#include "engine/microvm/images.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/id.h"
#include "engine/microvm/jail/jail.h"
#include "engine/microvm/sha256.h"
#include "engine/native/store_view.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace caisson::engine::microvm {
namespace {

constexpr unsigned kPlain = sys::kMountNoSuid | sys::kMountNoDev | sys::kMountReadOnly;
constexpr const char* kFolder = "images";
constexpr const char* kMaker = "/usr/bin/mkfs.erofs";
constexpr const char* kMaking = "making-";
constexpr const char* kOut = "image";
constexpr const char* kView = "view";
constexpr std::size_t kEntriesMax = 4096;
// To read what an image's root has closed to everybody, in the slot's user namespace.
constexpr std::uint64_t kReaderCapabilities = (1ULL << 1U) | (1ULL << 2U);

// A package that comes or goes changes one of these folders.
constexpr std::array<const char*, 5> kHostSigns = {"/usr/bin", "/usr/sbin", "/usr/lib",
                                                   "/usr/lib/x86_64-linux-gnu", "/usr/share/doc"};

std::string host_state() {
  std::string text;
  for (const char* path : kHostSigns) {
    struct stat facts{};
    if (::stat(path, &facts) != 0) continue;
    text += fmt::format("{} {} {}.{}\n", path, facts.st_nlink, facts.st_mtim.tv_sec,
                        facts.st_mtim.tv_nsec);
  }
  return text;
}

struct View {
  native::Rootfs files;  // whatever came with it
  std::vector<native::Mounted> mounts;
};

// The host image alone needs no store, only the skeleton and the host's folders.
Result<View> view_of_host(native::Slot& slot, const native::RootfsSources& sources) {
  native::StoreView store(slot, sources.store);
  const std::vector<UniqueFd> lowers = TRY(store.root_lowers(LayerStack{}));
  View view;
  view.mounts.push_back({kView, TRY(sys::clone_mount(lowers.front().get(), "", kPlain))});
  for (const std::string& path : sources.system_folders) {
    view.mounts.push_back({kView + path, TRY(sys::clone_mount_idmapped(
                                             AT_FDCWD, path, kPlain, slot.user_namespace.get()))});
  }
  return view;
}

// The tree that a launch with this stack would show, as mounts of its own.
Result<View> view_of(const LayerStack& stack, native::Slot& slot,
                     const native::RootfsSources& sources) {
  if (stack.host && stack.layers.empty()) return view_of_host(slot, sources);
  LaunchRequest box;
  box.id = "image";
  StoreMount wish;
  wish.kind = StoreMount::Kind::View;
  wish.at = std::string("/") + kView;
  wish.stack = stack;
  box.store_mounts.push_back(std::move(wish));
  View view{TRY(native::build_rootfs(box, slot, {}, sources)), {}};
  for (native::Mounted& one : view.files.mounts) {
    if (one.target == kView || one.target.starts_with(std::string(kView) + "/"))
      view.mounts.push_back(std::move(one));
  }
  return view;
}

// mkfs.erofs takes files with one number for one file. Layers that are subvolumes all count from
// the same number, and an overlay shows it: files would lie in the place of others.
Result<void> check_numbers(const LayerStack& stack, const native::RootfsSources& sources) {
  const native::Pool* pool = sources.store.pool;
  if (stack.layers.size() < 2 || pool == nullptr || !pool->limits()) return {};
  Error error{Errc::Unsupported,
              "image: the root of a microVM can have one layer where the store is a btrfs; make "
              "one of them (caisson image import of its root folder), or use another tier",
              0, "image"};
  return std::unexpected(std::move(error));
}

}  // namespace

Result<ImageShelf> ImageShelf::open(int folder) {
  TRY(sys::make_dir(folder, kFolder, 0700, sys::Existing::Accept));
  ImageShelf shelf;
  UniqueFd images = TRY(sys::open_at(folder, kFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  shelf.folder_ = TRY(sys::park(std::move(images)));
  return shelf;
}

std::string ImageShelf::name_of(const LayerStack& stack, const std::string& skeleton,
                                const std::string& seam) {
  std::string text = stack.host ? std::string() : fmt::format("seam {}\n", seam);
  for (const std::string& layer : stack.layers) text += fmt::format("layer {}\n", layer);
  if (stack.host) text += fmt::format("host {}\n{}", skeleton, host_state());
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return sha256(bytes).substr(0, 40);
}

Result<UniqueFd> ImageShelf::find(const std::string& name) const {
  UniqueFd image = TRY(sys::open_at(folder_.get(), name, O_RDONLY | O_NOFOLLOW));
  (void)::futimens(image.get(), nullptr);  // it was used: make_room() looks at that
  return image;
}

Result<void> ImageShelf::make_room() const {
  std::vector<std::pair<std::int64_t, std::string>> images;
  for (const std::string& name : TRY(sys::list_dir(folder_.get(), kEntriesMax))) {
    struct stat facts{};
    if (::fstatat(folder_.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const bool ours =
        std::ranges::any_of(making_, [&](const auto& one) { return one.second.file == name; });
    if (name.starts_with(kMaking)) {
      // Of a launcher that died. Nobody makes an image for an hour.
      constexpr std::int64_t kStaleSeconds = 3600;
      struct timespec now{};
      ::clock_gettime(CLOCK_REALTIME, &now);
      if (!ours && facts.st_mtim.tv_sec + kStaleSeconds < now.tv_sec)
        (void)::unlinkat(folder_.get(), name.c_str(), 0);
      continue;
    }
    images.emplace_back(facts.st_mtim.tv_sec, name);
  }
  std::ranges::sort(images);
  // Machines that read one have it open: for them it stays.
  for (std::size_t i = 0; i + kImagesMax <= images.size(); ++i)
    (void)::unlinkat(folder_.get(), images[i].second.c_str(), 0);
  return {};
}

Result<void> ImageShelf::begin(const std::string& name, const LayerStack& stack, native::Slot& slot,
                               const native::RootfsSources& sources, int null) {
  if (making_.size() >= kImagesMakingMax)
    return failure(Errc::Busy, "images: too many are being made at once");
  if (::access(kMaker, X_OK) != 0) {
    return failure(Errc::Unsupported,
                   fmt::format("the microvm tier needs {} (package erofs-utils)", kMaker));
  }
  TRY(make_room());
  const View view = TRY(view_of(stack, slot, sources));
  std::vector<JailTree> trees;
  for (const native::Mounted& one : view.mounts) trees.push_back({one.target, one.mount.get()});
  const std::string making = kMaking + TRY(SandboxId::random()).str();
  const UniqueFd out =
      TRY(sys::open_at(folder_.get(), making, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  const std::uint32_t owner = slot.ids.host_uid(0);
  if (::fchown(out.get(), owner, owner) != 0) return sys_failure("own an image", errno);
  const std::array<JailFile, 1> files{{{kOut, out.get(), {}, true}}};
  const std::array<JailDescriptor, 3> descriptors{{{null, 0}, {null, 1}, {null, 2}}};
  JailWish wish;
  wish.program = kMaker;
  wish.arguments = {"--quiet", "--preserve-mtime", std::string("/") + kOut,
                    std::string("/") + kView};
  wish.files = files;
  wish.trees = trees;
  wish.descriptors = descriptors;
  wish.user_namespace = slot.user_namespace.get();
  wish.id = 0;
  wish.capabilities = kReaderCapabilities;
  wish.file_bytes_max = kImageBytesMax;
  auto child = start_in_jail(wish);
  if (!child) {
    (void)::unlinkat(folder_.get(), making.c_str(), 0);
    return std::unexpected(child.error());
  }
  making_.insert_or_assign(name, Making{std::move(*child), making});
  return {};
}

// Whether it is there now.
Result<bool> ImageShelf::finish(const std::string& name, Patience patience) {
  const auto at = making_.find(name);
  if (at == making_.end()) return false;
  std::optional<sys::ExitStatus> ended;
  if (patience == Patience::Wait) {
    ended = TRY(at->second.child.wait());
  } else {
    ended = TRY(at->second.child.try_wait());
  }
  if (!ended) return false;
  const std::string file = at->second.file;
  making_.erase(at);
  if (ended->code != 0) {
    (void)::unlinkat(folder_.get(), file.c_str(), 0);
    return failure(Errc::Internal, fmt::format("{} could not make the image of the root; is the "
                                               "disk full?",
                                               kMaker));
  }
  const UniqueFd image = TRY(sys::open_at(folder_.get(), file, O_RDONLY | O_NOFOLLOW));
  if (::fchown(image.get(), 0, 0) != 0 || ::fchmod(image.get(), 0400) != 0 ||
      ::renameat(folder_.get(), file.c_str(), folder_.get(), name.c_str()) != 0)
    return sys_failure("name an image", errno);
  return true;
}

Result<UniqueFd> ImageShelf::image(const LayerStack& stack, native::Slot& slot,
                                   const native::RootfsSources& sources, int null,
                                   Patience patience) {
  TRY(check_numbers(stack, sources));
  const std::string name = name_of(stack, sources.store.skeleton, sources.store.seam);
  if (auto there = find(name); there || there.error().sys_errno != ENOENT) return there;
  if (!making_.contains(name))
    TRY_IN("the image of the root", begin(name, stack, slot, sources, null));
  if (!TRY(finish(name, patience)))
    return failure(Errc::Busy, "the image of this root is being made for microVMs; try again");
  return find(name);
}

}  // namespace caisson::engine::microvm
