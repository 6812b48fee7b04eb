#include "guest/layer/parts.h"

#include <set>

#include "guest/layer/tree.h"
#include "guest/protocol/layer_job.h"

namespace caisson::layer {

Result<std::vector<UniqueFd>> open_layers(int layer_root, const std::string& folder,
                                          std::uint32_t count) {
  std::vector<UniqueFd> layers;
  if (count == 0) return layers;
  const UniqueFd row = TRY(open_folder(layer_root, folder));
  for (std::uint32_t i = 0; i < count; ++i) {
    layers.push_back(TRY(open_folder(row.get(), std::to_string(i))));
  }
  return layers;
}

Result<std::vector<std::string>> list_parts(const std::vector<UniqueFd>& layers) {
  std::set<std::string> parts;
  for (const UniqueFd& layer : layers) {
    for (const std::string& name : TRY(list_folder(layer.get(), kPartsMax))) {
      // Beside them lies what an overlay needs for itself, and a sandbox's /tmp where all of it is
      // in memory: neither is part of a layer.
      if (name == wire::kPartRoot || !top_of_part(name).empty()) parts.insert(name);
    }
  }
  return std::vector<std::string>(parts.begin(), parts.end());
}

std::string_view top_of_part(std::string_view part) noexcept {
  const std::string_view system = wire::kPartSystem;
  if (!part.starts_with(system) || part.find('.') != std::string_view::npos) return {};
  return part.substr(system.size());
}

std::string part_of_top(std::string_view top) {
  return std::string(wire::kPartSystem) + std::string(top);
}

}  // namespace caisson::layer
