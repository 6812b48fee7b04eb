// control/snapshot_tree.h — every snapshot, and which came from which. Pure: records in memory.
//
// A snapshot lists the layers that it stands on itself, so one in the middle of a chain can go: its
// children get its parent. Parents are for people and for finding what two states have in common.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/file_records.h"

namespace caisson::control {

class SnapshotTree {
 public:
  void put(SnapshotRecord record);
  [[nodiscard]] SnapshotRecord* find(std::string_view id);
  [[nodiscard]] const SnapshotRecord* find(std::string_view id) const;
  // By id or by name, of this tenant.
  [[nodiscard]] const SnapshotRecord* find(std::string_view tenant, std::string_view what) const;
  [[nodiscard]] bool named(std::string_view tenant, std::string_view name) const;
  // Without the hidden ones, the oldest first.
  [[nodiscard]] std::vector<SnapshotView> list(std::string_view tenant,
                                               const std::optional<std::string>& sandbox) const;
  [[nodiscard]] std::size_t count(std::string_view tenant) const;
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }
  [[nodiscard]] const std::map<std::string, SnapshotRecord, std::less<>>& all() const noexcept {
    return records_;
  }

  // Takes it out; its children have its parent then. Those children, whose rows have changed.
  std::vector<SnapshotRecord> remove(const std::string& id);

  // The checkpoints of a sandbox, the oldest first.
  [[nodiscard]] std::vector<std::string> checkpoints(std::string_view sandbox) const;
  // Hidden ones that no sandbox stands on (`heads`) and where no two ways part.
  [[nodiscard]] std::vector<std::string> forgotten(const std::set<std::string>& heads) const;

  // From this snapshot up to the first; empty for an unknown one.
  [[nodiscard]] std::vector<std::string> chain(std::string_view id) const;
  // The nearest that is in both chains; none: they meet in their image, or nowhere.
  [[nodiscard]] std::optional<std::string> common(std::string_view a, std::string_view b) const;

  [[nodiscard]] std::set<std::string> layers() const;
  std::vector<const SnapshotRecord*> mark_broken(const std::set<std::string>& there);

  // `run`, topmost first, has become one layer: in every stack that holds it whole. The changed.
  std::vector<SnapshotRecord> replace_run(const std::vector<std::string>& run,
                                          const std::string& layer);

 private:
  std::map<std::string, SnapshotRecord, std::less<>> records_;
};

// Puts `layer` in the place of `run`; false where the stack does not hold it whole.
bool replace_run(engine::LayerStack& stack, const std::vector<std::string>& run,
                 const std::string& layer);

// How many layers two stacks share at their lower end.
[[nodiscard]] std::size_t shared_layers(const engine::LayerStack& a, const engine::LayerStack& b);

}  // namespace caisson::control
