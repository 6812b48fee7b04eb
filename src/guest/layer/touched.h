// guest/layer/touched.h — where some layers say anything at all. Whoever compares two states walks
// along these names only, so the cost does not grow with what nobody changed.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::layer {

// The layers of one or more states, with the parts they have.
class LayerSet {
 public:
  [[nodiscard]] Result<void> add(int layer_root, const std::string& folder, std::uint32_t count);
  // Reads the parts; after the last add().
  [[nodiscard]] Result<void> close();

  [[nodiscard]] const std::vector<UniqueFd>& layers() const noexcept { return layers_; }
  // Top folders that have a part of their own: "usr".
  [[nodiscard]] const std::set<std::string>& tops() const noexcept { return tops_; }

 private:
  std::vector<UniqueFd> layers_;
  std::set<std::string> tops_;
};

// One folder of the root, as those layers have it that have it.
class Touched {
 public:
  [[nodiscard]] static Result<Touched> root(const LayerSet& set);

  [[nodiscard]] Result<std::vector<std::string>> names(std::uint64_t names_max) const;
  [[nodiscard]] Result<Touched> enter(const std::string& name) const;
  // A layer hides or replaces what lies below: names() does not have all that may differ.
  [[nodiscard]] bool whole() const noexcept { return whole_; }

 private:
  Result<void> add_below(int folder, const std::string& name);

  const LayerSet* top_ = nullptr;  // set at the root only
  std::vector<UniqueFd> folders_;
  bool whole_ = false;
};

}  // namespace caisson::layer
