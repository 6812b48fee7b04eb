// engine/native/store_view.h — the launcher's store as one slot sees it: every owner in it is one
// of the slot's. Made for one launch and gone with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/host/features.h"
#include "engine/launch_request.h"
#include "engine/native/pool.h"
#include "engine/native/slots.h"
#include "engine/native/stage.h"

namespace caisson::engine::native {

struct StoreSources {
  const HostFeatures& host;
  Stage& stage;
  int state = -1;              // the state directory as it is on disk
  const Pool* pool = nullptr;  // none: no layers here
  std::string skeleton;        // below the state directory
  std::string seam;            // the same; empty: no images here
};

class StoreView {
 public:
  StoreView(const Slot& slot, const StoreSources& sources) : slot_(slot), sources_(sources) {}

  // Something of the pool, by its path there.
  [[nodiscard]] Result<UniqueFd> open(const std::string& path);
  [[nodiscard]] Result<bool> has(const std::string& path);

  // The lower sides of an overlay of one part, topmost first: of the root, with what lies below the
  // layers; of another part, of the layers alone, and perhaps none.
  [[nodiscard]] Result<std::vector<UniqueFd>> root_lowers(const LayerStack& stack);
  [[nodiscard]] Result<std::vector<UniqueFd>> part_lowers(const LayerStack& stack,
                                                          const std::string& part);
  // A folder with nothing in it.
  [[nodiscard]] Result<UniqueFd> nothing() { return open(Pool::kEmpty); }

  // The mounts through which it looked: closing the last descriptor of one waits for every
  // processor, and so whoever is in a hurry keeps them for later.
  void let_go(std::vector<UniqueFd>& into) {
    for (UniqueFd* mount : {&state_, &pool_}) {
      if (*mount) into.push_back(std::move(*mount));
    }
  }

 private:
  [[nodiscard]] Result<int> state();
  [[nodiscard]] Result<int> pool();
  [[nodiscard]] Result<UniqueFd> mount(int source);
  [[nodiscard]] Result<void> add_layer(const std::string& layer, const std::string& part,
                                       std::vector<UniqueFd>& lowers);

  const Slot& slot_;
  const StoreSources& sources_;
  UniqueFd state_;
  UniqueFd pool_;
};

// Image layers carry their digest as a name, all others are somebody's own.
[[nodiscard]] bool is_image_layer(std::string_view name) noexcept;

// A read-only overlay; `nothing` fills up a single lower side.
[[nodiscard]] Result<UniqueFd> merged_view(const HostFeatures& host,
                                           const std::vector<UniqueFd>& lowers,
                                           const UniqueFd& nothing);

}  // namespace caisson::engine::native
