#include "engine/native/store_view.h"

#include <fcntl.h>

#include <cerrno>

#include "guest/protocol/layer_job.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace caisson::engine::native {
namespace {

constexpr unsigned kPlain = sys::kMountNoSuid | sys::kMountNoDev;
constexpr std::string_view kImagePrefix = "sha256-";

}  // namespace

bool is_image_layer(std::string_view name) noexcept { return name.starts_with(kImagePrefix); }

Result<UniqueFd> StoreView::mount(int source) {
  UniqueFd mount =
      TRY(sources_.host.privileged
              ? sys::clone_mount_idmapped(source, "", kPlain, slot_.store_namespace.get())
              : sys::clone_mount(source, "", kPlain));
  TRY(sources_.stage.attach(mount.get()));
  return mount;
}

Result<int> StoreView::state() {
  if (!state_) state_ = TRY_IN("the state directory", mount(sources_.state));
  return state_.get();
}

Result<int> StoreView::pool() {
  if (sources_.pool == nullptr)
    return failure(Errc::Unsupported, "layers: only a server's launcher has a store");
  if (!pool_) pool_ = TRY_IN("the store", mount(sources_.pool->root()));
  return pool_.get();
}

Result<UniqueFd> StoreView::open(const std::string& path) {
  const int root = TRY(pool());
  return sys::open_beneath(root, path, O_PATH | O_DIRECTORY);
}

Result<bool> StoreView::has(const std::string& path) {
  auto there = open(path);
  if (there) return true;
  if (there.error().sys_errno == ENOENT) return false;
  return std::unexpected(there.error());
}

Result<void> StoreView::add_layer(const std::string& layer, const std::string& part,
                                  std::vector<UniqueFd>& lowers) {
  const std::string folder = Pool::kLayers + layer;
  auto found = open(folder + "/" + part);
  if (found) {
    lowers.push_back(std::move(*found));
    return {};
  }
  // A layer need not have every part; but it must be there.
  if (found.error().sys_errno != ENOENT) return std::unexpected(found.error());
  if (!TRY(has(folder))) return failure(Errc::NotFound, "layer '" + layer + "' is not here");
  return {};
}

Result<std::vector<UniqueFd>> StoreView::part_lowers(const LayerStack& stack,
                                                     const std::string& part) {
  std::vector<UniqueFd> lowers;
  for (const std::string& layer : stack.layers) TRY(add_layer(layer, part, lowers));
  return lowers;
}

Result<std::vector<UniqueFd>> StoreView::root_lowers(const LayerStack& stack) {
  std::vector<UniqueFd> lowers;
  const auto add_own = [&](const std::string& path) -> Result<void> {
    const int own = TRY(state());
    lowers.push_back(TRY(sys::open_beneath(own, path, O_PATH | O_DIRECTORY)));
    return {};
  };
  bool seam = !stack.host;
  for (const std::string& layer : stack.layers) {
    if (seam && is_image_layer(layer)) {
      TRY(add_own(sources_.seam));
      seam = false;
    }
    TRY(add_layer(layer, wire::kPartRoot, lowers));
  }
  if (seam) TRY(add_own(sources_.seam));
  if (stack.host) TRY(add_own(sources_.skeleton));
  return lowers;
}

Result<UniqueFd> merged_view(const HostFeatures& host, const std::vector<UniqueFd>& lowers,
                             const UniqueFd& nothing) {
  sys::OverlaySpec spec;
  for (const UniqueFd& lower : lowers) spec.lowers.push_back(lower.get());
  if (spec.lowers.size() < 2) spec.lowers.push_back(nothing.get());
  spec.names =
      host.overlay_layer_descriptors() ? sys::LayerNames::Descriptors : sys::LayerNames::Paths;
  return sys::overlay_mount(spec);
}

}  // namespace caisson::engine::native
