#include "engine/native/rootfs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "guest/protocol/layer_job.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace caisson::engine::native {
namespace {

constexpr unsigned kPlain = sys::kMountNoSuid | sys::kMountNoDev;
constexpr const char* kTerminalsMax = "256";
constexpr std::uint32_t kTtyGroup = 5;
constexpr std::size_t kTrustBundleBytesMax = 4UL << 20U;

// The part of a writable layer that holds the changes of a system folder.
std::string part_of(const std::string& system_folder) {
  return wire::kPartSystem + system_folder.substr(system_folder.rfind('/') + 1);
}

// A mount of ours in which a path of the request may lie, and may be made.
struct Tree {
  std::string at;
  UniqueFd mount;
  bool writable = false;
  bool ours = true;  // false: a folder of the host, in which nothing is made
};

class RootfsBuilder {
 public:
  RootfsBuilder(const LaunchRequest& request, Slot& slot, std::span<const UniqueFd> folders,
                const RootfsSources& sources, Scope scope)
      : request_(request),
        slot_(slot),
        folders_(folders),
        sources_(sources),
        store_(slot, sources.store),
        scope_(scope) {}

  Result<Rootfs> build();

 private:
  Result<void> make_layer();
  Result<void> make_upper();
  Result<void> make_own(int dir, const std::string& name, unsigned mode, std::uint32_t uid,
                        std::uint32_t gid);
  Result<void> make_sides(int dir, const std::string& name);
  Result<UniqueFd> overlay(int dir, const std::vector<UniqueFd>& lowers, const std::string& name);
  Result<void> make_root();
  Result<void> add_trust(const std::vector<UniqueFd>& lowers);
  Result<void> add_store_mount(const StoreMount& wish);
  Result<UniqueFd> store_mount(const StoreMount& wish);
  Result<UniqueFd> view(const StoreMount& wish);
  Result<void> settle_owner(const std::string& volume);
  Result<void> add_scratch(const std::string& at, const std::string& name);
  Result<void> add_folder(const Folder& folder, int source, std::size_t number);
  Result<UniqueFd> private_copy(const UniqueFd& lower, std::size_t number);
  Result<UniqueFd> translated(int source, unsigned flags, FolderMode mode);
  Result<void> add_private(const std::string& path);
  Result<void> add_alias(const Alias& alias);
  Result<void> add_system_folder(const std::string& path);
  Result<void> add_devices();
  Result<void> finish_trees();
  Tree& tree_of(const std::string& path);
  Result<UniqueFd> make_place(const Tree& tree, const std::string& path);
  void add(const std::string& at, UniqueFd mount) {
    out_.mounts.push_back({at.substr(1), std::move(mount)});
  }

  [[nodiscard]] std::uint32_t root_id() const { return slot_.ids.host_uid(0); }
  [[nodiscard]] std::uint32_t tenant_uid() const { return slot_.ids.host_uid(request_.uid); }
  [[nodiscard]] std::uint32_t tenant_gid() const { return slot_.ids.host_gid(request_.gid); }

  const LaunchRequest& request_;
  Slot& slot_;
  std::span<const UniqueFd> folders_;
  const RootfsSources& sources_;
  StoreView store_;
  Scope scope_;
  UniqueFd layer_;  // the tmpfs
  UniqueFd
      upper_;  // where the sides of the root and the system folders are: there, or in the store
  std::vector<Tree> trees_;
  Rootfs out_;
};

// We make files as the slot's root and without a mask for modes, so only other owners cost a call
// more.
Result<void> RootfsBuilder::make_own(int dir, const std::string& name, unsigned mode,
                                     std::uint32_t uid, std::uint32_t gid) {
  TRY(sys::make_dir(dir, name, mode,
                    request_.resume ? sys::Existing::Accept : sys::Existing::Refuse));
  if (sources_.host.privileged && uid == root_id() && gid == root_id()) return {};
  if (::fchownat(dir, name.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return sys_failure("prepare the private layer", errno);
  }
  return {};
}

// The two sides of an overlay that can be written. What an overlay of an earlier life left in the
// second would keep the kernel from using it again.
Result<void> RootfsBuilder::make_sides(int dir, const std::string& name) {
  TRY(make_own(dir, name, 0755, root_id(), root_id()));
  const std::string work = name + ".work";
  if (request_.resume) {
    const UniqueFd folder = TRY(sys::open_at(dir, ".", O_RDONLY | O_DIRECTORY));
    const auto gone = sys::remove_tree(folder.get(), work);
    if (!gone && gone.error().sys_errno != ENOENT) return gone;
  }
  return make_own(dir, work, 0700, root_id(), root_id());
}

Result<void> RootfsBuilder::make_layer() {
  if (scope_ == Scope::Files && request_.storage != Storage::Memory) return {};
  if (sources_.layer >= 0) {
    layer_ = TRY(sys::duplicate(sources_.layer));
    return {};
  }
  const std::string id = std::to_string(root_id());
  layer_ = TRY(sys::new_mount("tmpfs",
                              {{"size", std::to_string(request_.limits.disk_bytes)},
                               {"nr_inodes", std::to_string(request_.limits.disk_files)},
                               {"mode", "0711"},
                               {"uid", id},
                               {"gid", id}},
                              kPlain));
  TRY(sources_.store.stage.attach(layer_.get()));
  for (const char* name : {"tmp", "run", "shm"})
    TRY(make_own(layer_.get(), name, 01777, root_id(), root_id()));
  return {};
}

Result<void> RootfsBuilder::make_upper() {
  if (request_.storage == Storage::Disk) {
    upper_ = TRY(store_.open(Pool::kUppers + request_.id));
  } else {
    upper_ = TRY(sys::open_at(layer_.get(), ".", O_PATH | O_DIRECTORY));
  }
  TRY(make_sides(upper_.get(), "root"));
  return make_own(upper_.get(), "root/workspace", 0755, tenant_uid(), tenant_gid());
}

Result<UniqueFd> RootfsBuilder::overlay(int dir, const std::vector<UniqueFd>& lowers,
                                        const std::string& name) {
  const UniqueFd upper = TRY(sys::open_at(dir, name, O_PATH | O_DIRECTORY));
  const UniqueFd work = TRY(sys::open_at(dir, name + ".work", O_PATH | O_DIRECTORY));
  sys::OverlaySpec spec;
  for (const UniqueFd& lower : lowers) spec.lowers.push_back(lower.get());
  spec.upper = upper.get();
  spec.work = work.get();
  // A tmpfs takes user.* attributes since 6.6. Before, the host's root marks with trusted.*, which
  // tmpfs always took; but the marks in layers are user.*.
  const bool disk = request_.storage == Storage::Disk && dir == upper_.get();
  spec.user_xattr =
      disk || !sources_.host.privileged || sources_.host.kernel >= KernelVersion{6, 6};
  if (!spec.user_xattr && (!request_.stack.layers.empty() || !request_.stack.host)) {
    return failure(
        Errc::Unsupported,
        "storage: layers below a private one in memory need Linux 6.6; use storage disk");
  }
  spec.names = sources_.host.overlay_layer_descriptors() ? sys::LayerNames::Descriptors
                                                         : sys::LayerNames::Paths;
  return sys::overlay_mount(spec);
}

Result<void> RootfsBuilder::make_root() {
  const std::vector<UniqueFd> lowers = TRY(store_.root_lowers(request_.stack));
  if (!request_.trust.empty() && !request_.resume) TRY_IN("trust", add_trust(lowers));
  Tree root{"/", TRY(overlay(upper_.get(), lowers, "root")), request_.root == RootMode::Writable};
  TRY(sources_.store.stage.attach(root.mount.get()));
  trees_.push_back(std::move(root));
  return {};
}

// The authorities of the image and one more, as a file of the layer that lies above the image's
// own. It is there before the overlay is, so a root that cannot be written has it, too.
Result<void> RootfsBuilder::add_trust(const std::vector<UniqueFd>& lowers) {
  const std::string file = "root" + std::string(kTrustFile);
  for (std::size_t at = file.find('/', 5); at != std::string::npos; at = file.find('/', at + 1))
    TRY(make_own(upper_.get(), file.substr(0, at), 0755, root_id(), root_id()));
  std::string bundle;
  for (const UniqueFd& lower : lowers) {
    // An image may have anything there: a link is not followed, and a pipe has no bytes.
    const auto found = sys::open_beneath(lower.get(), std::string(kTrustFile.substr(1)),
                                         O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (!found) continue;
    struct stat facts{};
    if (::fstat(found->get(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    bundle = TRY(sys::read_again(found->get(), kTrustBundleBytesMax));
    if (!bundle.empty() && bundle.back() != '\n') bundle += '\n';
    break;
  }
  bundle += request_.trust;
  const UniqueFd out =
      TRY(sys::open_at(upper_.get(), file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
  // Short only where the sandbox's private bytes are fewer than the file.
  const ssize_t put = ::write(out.get(), bundle.data(), bundle.size());
  if (put < 0) return sys_failure("write it", errno);
  if (static_cast<std::size_t>(put) != bundle.size()) {
    return failure(Errc::Exhausted,
                   fmt::format("the file of trusted authorities is {} bytes, and the sandbox has "
                               "less disk than that; give it more",
                               bundle.size()));
  }
  if (::fchown(out.get(), root_id(), root_id()) != 0) return sys_failure("own it", errno);
  return {};
}

Result<void> RootfsBuilder::add_scratch(const std::string& at, const std::string& name) {
  UniqueFd mount = TRY(sys::clone_mount(layer_.get(), name, 0));
  const bool writable =
      request_.root == RootMode::Writable || request_.scratch == ScratchMode::Writable;
  TRY(sources_.store.stage.attach(mount.get()));
  trees_.push_back({at, std::move(mount), writable});
  return {};
}

Tree& RootfsBuilder::tree_of(const std::string& path) {
  Tree* best = &trees_.front();  // "/"
  for (Tree& tree : trees_) {
    if (is_below(path, tree.at) && tree.at.size() > best->at.size()) best = &tree;
  }
  return *best;
}

// Walks from the tree's root to `path`, makes what is missing, and returns the last folder. No link
// is followed: a path through one would name another place than the policy says.
Result<UniqueFd> RootfsBuilder::make_place(const Tree& tree, const std::string& path) {
  const std::string below = path.substr(tree.at == "/" ? 1 : tree.at.size() + 1);
  UniqueFd dir = TRY(sys::open_at(tree.mount.get(), ".", O_PATH | O_DIRECTORY));
  for (std::size_t at = 0; at <= below.size();) {
    const std::size_t end = std::min(below.find('/', at), below.size());
    const std::string part = below.substr(at, end - at);
    if (tree.ours) TRY(sys::make_dir(dir.get(), part, 0755, sys::Existing::Accept));
    auto next = sys::open_beneath(dir.get(), part, O_PATH | O_DIRECTORY);
    if (!next) {
      return failure(
          Errc::InvalidArgument,
          fmt::format("'{}': '{}' is no folder there ({}); name the place a link points to", path,
                      part, next.error().message));
    }
    dir = std::move(*next);
    at = end + 1;
  }
  return dir;
}

Result<FolderOwner> folder_owner(int folder, const LaunchRequest& request) {
  struct stat facts{};
  if (::fstat(folder, &facts) != 0) return sys_failure("look at a folder", errno);
  if (!S_ISDIR(facts.st_mode)) return failure(Errc::InvalidArgument, "folder: not a directory");
  return FolderOwner{facts.st_uid, facts.st_gid, request.uid, request.gid};
}

// The folder with its owner shown as the tenant. Where the file system cannot translate owners,
// reading goes by the bits for others; writing to the host would be refused by those, so that is
// said at once.
Result<UniqueFd> RootfsBuilder::translated(int source, unsigned flags, FolderMode mode) {
  // Rootless, the caller is the owner already.
  if (!sources_.host.privileged) return sys::clone_mount(source, "", flags);
  const FolderOwner owner = TRY(folder_owner(source, request_));
  if (slot_.folder_owner != owner) {
    // Kept with the slot: the next sandbox in it is likely to show the same folder.
    auto pending = TRY(sys::PendingNamespace::start_user(
        {{owner.uid, slot_.ids.host_uid(owner.tenant_uid), 1}},
        {{owner.gid, slot_.ids.host_gid(owner.tenant_gid), 1}}, sys::NestedNamespaces::Allowed));
    UniqueFd made = TRY(pending.finish());
    slot_.folder_namespace = TRY(sys::park(std::move(made)));
    slot_.folder_owner = owner;
  }
  std::optional<sys::MountNamespaceVisit> visit;
  if (sources_.home_mounts >= 0) visit.emplace(sources_.home_mounts, sources_.own_mounts);
  auto mount = sys::clone_mount_idmapped(source, "", flags, slot_.folder_namespace.get());
  if (mount || mode == FolderMode::Writable) return mount;
  return sys::clone_mount(source, "", flags);
}

Result<UniqueFd> RootfsBuilder::private_copy(const UniqueFd& lower, std::size_t number) {
  struct stat facts{};
  if (::fstat(lower.get(), &facts) != 0) return sys_failure("look at a folder", errno);
  const std::string name = "folder" + std::to_string(number);
  TRY(make_own(layer_.get(), name, facts.st_mode & 07777U, tenant_uid(), tenant_gid()));
  TRY(make_own(layer_.get(), name + ".work", 0700, root_id(), root_id()));
  std::vector<UniqueFd> lowers;
  lowers.push_back(TRY(sys::duplicate(lower.get())));
  return overlay(layer_.get(), lowers, name);
}

Result<void> RootfsBuilder::add_folder(const Folder& folder, int source, std::size_t number) {
  const bool copy = folder.mode == FolderMode::PrivateCopy;
  const unsigned flags = kPlain | (folder.mode == FolderMode::ReadOnly ? sys::kMountReadOnly : 0U);
  UniqueFd mount = TRY_IN("folder " + folder.at, translated(source, flags, folder.mode));
  // An overlay also where nothing may be written: a listening socket of the host can be reached
  // through a read-only bind of its folder, but not through an overlay, whose sockets are others.
  TRY(sources_.store.stage.attach(mount.get()));
  if (folder.mode != FolderMode::Writable) {
    UniqueFd copy_of_it = TRY_IN("folder " + folder.at, private_copy(mount, number));
    out_.spent.push_back(std::exchange(mount, std::move(copy_of_it)));
    TRY(sources_.store.stage.attach(mount.get()));
  }
  const Tree& tree = tree_of(folder.at);
  if (tree.at != folder.at) TRY(make_place(tree, folder.at));
  trees_.push_back({folder.at, std::move(mount), folder.mode != FolderMode::ReadOnly, copy});
  return {};
}

Result<void> RootfsBuilder::add_private(const std::string& path) {
  Tree& tree = tree_of(path);
  if (tree.at == path) {
    tree.writable = true;
    return {};
  }
  if (!tree.ours) {
    return failure(Errc::InvalidArgument,
                   "writable: '" + path + "' lies in '" + tree.at + "', a folder of the host");
  }
  const UniqueFd place = TRY(make_place(tree, path));
  if (::fchownat(place.get(), "", tenant_uid(), tenant_gid(), AT_EMPTY_PATH) != 0) {
    return sys_failure("own '" + path + "'", errno);
  }
  add(path, TRY(sys::clone_mount(place.get(), "", 0)));
  return {};
}

// By a mount and not by a link: a program that asks where it is hears the name that it used.
Result<void> RootfsBuilder::add_alias(const Alias& alias) {
  const Tree& tree = tree_of(alias.at);
  if (!tree.ours || tree.at == alias.at)
    return failure(Errc::InvalidArgument, "alias: '" + alias.at + "' is a place of its own");
  const UniqueFd place = TRY(make_place(tree_of(alias.of), alias.of));
  TRY(make_place(tree, alias.at));
  add(alias.at, TRY(sys::clone_mount(place.get(), "", 0)));
  return {};
}

Result<void> RootfsBuilder::add_system_folder(const std::string& path) {
  UniqueFd host;
  if (sources_.host.privileged) {
    // Root's files are shown as the slot's root's. A file system that cannot do that shows them as
    // nobody's.
    auto mapped = sys::clone_mount_idmapped(AT_FDCWD, path, kPlain | sys::kMountReadOnly,
                                            slot_.user_namespace.get());
    if (mapped) host = std::move(*mapped);
  }
  if (!host) host = TRY(sys::clone_mount(AT_FDCWD, path, kPlain | sys::kMountReadOnly));
  const std::string name = part_of(path);
  std::vector<UniqueFd> lowers;
  if (!request_.stack.layers.empty()) lowers = TRY(store_.part_lowers(request_.stack, name));
  const bool writable = request_.root == RootMode::Writable;
  if (writable || !lowers.empty()) {
    TRY(sources_.store.stage.attach(host.get()));
    lowers.push_back(TRY(sys::duplicate(host.get())));
    if (writable) TRY(make_sides(upper_.get(), name));
    UniqueFd layered =
        TRY_IN("layers of " + path, writable ? overlay(upper_.get(), lowers, name)
                                             : merged_view(sources_.host, lowers, host));
    out_.spent.push_back(std::exchange(host, std::move(layered)));
  }
  add(path, std::move(host));
  return {};
}

// A view of a host image shows the host's folders in their places.
Result<UniqueFd> RootfsBuilder::view(const StoreMount& wish) {
  const UniqueFd nothing = TRY(store_.nothing());
  const std::vector<UniqueFd> below = TRY(store_.root_lowers(wish.stack));
  UniqueFd root = TRY(merged_view(sources_.host, below, nothing));
  if (!wish.stack.host) return root;
  for (const std::string& path : sources_.system_folders) {
    std::vector<UniqueFd> lowers = TRY(store_.part_lowers(wish.stack, part_of(path)));
    UniqueFd host = TRY(sys::clone_mount(AT_FDCWD, path, kPlain | sys::kMountReadOnly));
    if (!lowers.empty()) {
      TRY(sources_.store.stage.attach(host.get()));
      lowers.push_back(TRY(sys::duplicate(host.get())));
      UniqueFd layered = TRY(merged_view(sources_.host, lowers, nothing));
      out_.spent.push_back(std::exchange(host, std::move(layered)));
    }
    add(wish.at + path, std::move(host));
  }
  return root;
}

// A volume belongs to the first who may write it, and to nobody before that.
Result<void> RootfsBuilder::settle_owner(const std::string& volume) {
  const UniqueFd folder = TRY(store_.open(volume));
  struct stat facts{};
  if (::fstat(folder.get(), &facts) != 0) return sys_failure("look at the volume", errno);
  if (facts.st_uid != slot_.ids.host_uid(kInitId)) return {};
  if (::fchownat(folder.get(), "", tenant_uid(), tenant_gid(), AT_EMPTY_PATH) != 0)
    return sys_failure("own the volume", errno);
  return {};
}

Result<UniqueFd> RootfsBuilder::store_mount(const StoreMount& wish) {
  const auto stored = [&](const std::string& path, unsigned flags) -> Result<UniqueFd> {
    const UniqueFd folder = TRY(store_.open(path));
    return sys::clone_mount(folder.get(), "", kPlain | flags);
  };
  switch (wish.kind) {
    case StoreMount::Kind::View:
      return view(wish);
    case StoreMount::Kind::Layer:
      return stored(Pool::kLayers + wish.name, sys::kMountReadOnly);
    case StoreMount::Kind::Upper:
      return sources_.upper_of(wish.name, slot_);
    case StoreMount::Kind::Volume:
      if (!wish.read_only) TRY(settle_owner(Pool::kVolumes + wish.name));
      return stored(Pool::kVolumes + wish.name, wish.read_only ? sys::kMountReadOnly : 0U);
    case StoreMount::Kind::Target:
      return stored(Pool::kMaking + request_.id, 0);
  }
  return failure(Errc::InvalidArgument, "store_mounts: unknown kind");
}

Result<void> RootfsBuilder::add_store_mount(const StoreMount& wish) {
  UniqueFd mount = TRY_IN("mount " + wish.at, store_mount(wish));
  TRY(make_place(tree_of(wish.at), wish.at));
  add(wish.at, std::move(mount));
  return {};
}

Result<void> RootfsBuilder::add_devices() {
  const int devices = TRY(sources_.devices());
  add("/dev", TRY(sys::clone_mount(devices, "", 0)));
  if (!sources_.host.privileged) {
    auto nodes = TRY(borrow_device_nodes());
    for (Mounted& node : nodes) out_.mounts.push_back(std::move(node));
  }
  const std::uint32_t group = slot_.ids.host_gid(kTtyGroup);
  add("/dev/pts", TRY(sys::new_mount("devpts",
                                     {{"gid", std::to_string(group)},
                                      {"mode", "0620"},
                                      {"ptmxmode", "0666"},
                                      {"max", kTerminalsMax}},
                                     sys::kMountNoSuid | sys::kMountNoExec)));
  return {};
}

Result<void> RootfsBuilder::finish_trees() {
  for (Tree& tree : trees_) {
    if (tree.at == "/" && !tree.writable && has_own_workspace(request_)) {
      add(std::string(kOwnWorkspace), TRY(sys::clone_mount(tree.mount.get(), "workspace", 0)));
    }
    // What stands on the stage stays there; the child gets a copy.
    if (sources_.store.stage.needed()) tree.mount = TRY(sys::clone_mount(tree.mount.get(), "", 0));
    if (!tree.writable) TRY(sys::set_mount_flags(tree.mount.get(), sys::kMountReadOnly));
    if (tree.at == "/") {
      out_.root = std::move(tree.mount);
    } else {
      add(tree.at, std::move(tree.mount));
    }
  }
  std::ranges::sort(out_.mounts, {}, &Mounted::target);
  return {};
}

Result<Rootfs> RootfsBuilder::build() {
  // Everything below is made as the slot's root, so that its owners are ids of the slot and never
  // of the host.
  const sys::ModeMask no_mask(0);
  std::optional<sys::FsIdentity> identity;
  if (sources_.host.privileged) identity.emplace(root_id());
  const bool whole = scope_ != Scope::Files;
  TRY(make_layer());
  TRY(make_upper());
  TRY(make_root());
  if (whole) {
    TRY(add_scratch("/tmp", "tmp"));
    TRY(add_scratch("/run", "run"));
    TRY(add_scratch("/dev/shm", "shm"));
    for (std::size_t i = 0; i < request_.folders.size(); ++i)
      TRY(add_folder(request_.folders[i], folders_[i].get(), i));
    for (const StoreMount& wish : request_.store_mounts) TRY(add_store_mount(wish));
  } else {
    for (const StoreMount& wish : request_.store_mounts) TRY(make_place(trees_.front(), wish.at));
  }
  for (const std::string& path : request_.writable) TRY(add_private(path));
  for (const Alias& alias : request_.aliases) TRY(add_alias(alias));
  if (request_.stack.host) {
    for (const std::string& path : sources_.system_folders) TRY(add_system_folder(path));
  }
  if (scope_ == Scope::Whole) TRY(add_devices());
  TRY(finish_trees());
  out_.layer = std::move(layer_);
  store_.let_go(out_.spent);
  return std::move(out_);
}

}  // namespace

Result<FolderOwner> owner_of(int folder, const LaunchRequest& request) {
  return folder_owner(folder, request);
}

Result<Rootfs> build_rootfs(const LaunchRequest& request, Slot& slot,
                            std::span<const UniqueFd> folders, const RootfsSources& sources,
                            Scope scope) {
  CAISSON_ASSERT(request.folders.size() == folders.size());
  return RootfsBuilder(request, slot, folders, sources, scope).build();
}

}  // namespace caisson::engine::native
