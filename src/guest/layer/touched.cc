#include "guest/layer/touched.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "guest/layer/parts.h"
#include "guest/layer/tree.h"
#include "guest/protocol/layer_job.h"

namespace caisson::layer {

Result<void> LayerSet::add(int layer_root, const std::string& folder, std::uint32_t count) {
  for (UniqueFd& layer : TRY(open_layers(layer_root, folder, count))) {
    layers_.push_back(std::move(layer));
  }
  return {};
}

Result<void> LayerSet::close() {
  for (const std::string& part : TRY(list_parts(layers_))) {
    if (part != wire::kPartRoot) tops_.emplace(top_of_part(part));
  }
  return {};
}

Result<Touched> Touched::root(const LayerSet& set) {
  Touched result;
  result.top_ = &set;
  for (const UniqueFd& layer : set.layers()) {
    std::optional<UniqueFd> folder = TRY(find_folder(layer.get(), wire::kPartRoot));
    if (folder) result.folders_.push_back(std::move(*folder));
  }
  return result;
}

Result<std::vector<std::string>> Touched::names(std::uint64_t names_max) const {
  std::set<std::string> all;
  if (top_ != nullptr) all = top_->tops();
  for (const UniqueFd& folder : folders_) {
    for (std::string& name : TRY(list_folder(folder.get(), names_max))) all.insert(std::move(name));
  }
  return std::vector<std::string>(all.begin(), all.end());
}

Result<Touched> Touched::enter(const std::string& name) const {
  Touched inner;
  if (top_ != nullptr && top_->tops().contains(name)) {
    // The part is mounted there: what the root itself has of this name does not show.
    for (const UniqueFd& layer : top_->layers()) {
      std::optional<UniqueFd> folder = TRY(find_folder(layer.get(), part_of_top(name)));
      if (folder) inner.folders_.push_back(std::move(*folder));
    }
    return inner;
  }
  for (const UniqueFd& folder : folders_) TRY(inner.add_below(folder.get(), name));
  return inner;
}

Result<void> Touched::add_below(int folder, const std::string& name) {
  const std::optional<struct stat> facts = TRY(find_entry(folder, name));
  if (!facts) return {};
  if (!S_ISDIR(facts->st_mode)) {
    whole_ = true;
    return {};
  }
  UniqueFd inner = TRY(open_folder(folder, name));
  const Attributes attributes = TRY(read_attributes(inner.get()));
  whole_ = whole_ || attributes.opaque;
  folders_.push_back(std::move(inner));
  return {};
}

}  // namespace caisson::layer
