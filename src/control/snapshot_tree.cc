#include "control/snapshot_tree.h"

#include <algorithm>

namespace caisson::control {

void SnapshotTree::put(SnapshotRecord record) {
  std::string id = record.id;
  records_[std::move(id)] = std::move(record);
}

SnapshotRecord* SnapshotTree::find(std::string_view id) {
  const auto at = records_.find(id);
  return at == records_.end() ? nullptr : &at->second;
}

const SnapshotRecord* SnapshotTree::find(std::string_view id) const {
  const auto at = records_.find(id);
  return at == records_.end() ? nullptr : &at->second;
}

const SnapshotRecord* SnapshotTree::find(std::string_view tenant, std::string_view what) const {
  const SnapshotRecord* by_id = find(what);
  if (by_id != nullptr && by_id->tenant == tenant && !by_id->making) return by_id;
  if (what.empty()) return nullptr;
  for (const auto& [id, record] : records_) {
    if (record.tenant == tenant && record.name == what && !record.making) return &record;
  }
  return nullptr;
}

bool SnapshotTree::named(std::string_view tenant, std::string_view name) const {
  return std::ranges::any_of(records_, [&](const auto& one) {
    return one.second.tenant == tenant && one.second.name == name;
  });
}

std::vector<SnapshotView> SnapshotTree::list(std::string_view tenant,
                                             const std::optional<std::string>& sandbox) const {
  std::vector<SnapshotView> out;
  for (const auto& [id, record] : records_) {
    if (record.tenant != tenant || record.hidden || record.making) continue;
    if (!sandbox || record.sandbox == *sandbox) out.push_back(snapshot_view(record));
  }
  std::ranges::sort(out, {},
                    [](const SnapshotView& one) { return std::pair(one.created, one.id); });
  return out;
}

std::size_t SnapshotTree::count(std::string_view tenant) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      records_, [&](const auto& one) { return one.second.tenant == tenant; }));
}

std::vector<SnapshotRecord> SnapshotTree::remove(const std::string& id) {
  std::vector<SnapshotRecord> changed;
  const auto at = records_.find(id);
  if (at == records_.end()) return changed;
  const std::string parent = at->second.parent;
  records_.erase(at);
  for (auto& [other, record] : records_) {
    if (record.parent != id) continue;
    record.parent = parent;
    changed.push_back(record);
  }
  return changed;
}

std::vector<std::string> SnapshotTree::checkpoints(std::string_view sandbox) const {
  std::vector<std::pair<store::WallTime, std::string>> found;
  for (const auto& [id, record] : records_) {
    if (record.checkpoint && !record.making && record.sandbox == sandbox)
      found.emplace_back(record.created, id);
  }
  std::ranges::sort(found);
  std::vector<std::string> out;
  for (auto& [created, id] : found) out.push_back(std::move(id));
  return out;
}

std::vector<std::string> SnapshotTree::forgotten(const std::set<std::string>& heads) const {
  std::map<std::string_view, std::size_t> children;
  for (const auto& [id, record] : records_) ++children[record.parent];
  std::vector<std::string> out;
  for (const auto& [id, record] : records_) {
    if (record.hidden && !record.making && !heads.contains(id) && children[id] < 2)
      out.push_back(id);
  }
  return out;
}

std::vector<std::string> SnapshotTree::chain(std::string_view id) const {
  std::vector<std::string> out;
  std::set<std::string, std::less<>> seen;  // a record that was damaged must not lead in circles
  for (const SnapshotRecord* at = find(id); at != nullptr && seen.insert(at->id).second;
       at = find(at->parent))
    out.push_back(at->id);
  return out;
}

std::optional<std::string> SnapshotTree::common(std::string_view a, std::string_view b) const {
  const auto above = chain(b);
  const std::set<std::string> others(above.begin(), above.end());
  for (std::string& id : chain(a)) {
    if (others.contains(id)) return std::move(id);
  }
  return std::nullopt;
}

std::set<std::string> SnapshotTree::layers() const {
  std::set<std::string> out;
  for (const auto& [id, record] : records_)
    out.insert(record.stack.layers.begin(), record.stack.layers.end());
  return out;
}

std::vector<const SnapshotRecord*> SnapshotTree::mark_broken(const std::set<std::string>& there) {
  std::vector<const SnapshotRecord*> out;
  for (auto& [id, record] : records_) {
    if (record.making) continue;
    record.broken = !std::ranges::all_of(
        record.stack.layers, [&](const std::string& layer) { return there.contains(layer); });
    if (record.broken) out.push_back(&record);
  }
  return out;
}

std::vector<SnapshotRecord> SnapshotTree::replace_run(const std::vector<std::string>& run,
                                                      const std::string& layer) {
  std::vector<SnapshotRecord> changed;
  for (auto& [id, record] : records_) {
    if (!record.making && control::replace_run(record.stack, run, layer)) changed.push_back(record);
  }
  return changed;
}

bool replace_run(engine::LayerStack& stack, const std::vector<std::string>& run,
                 const std::string& layer) {
  if (run.empty()) return false;
  const auto found = std::ranges::search(stack.layers, run);
  if (found.empty()) return false;
  const auto at = stack.layers.erase(found.begin(), found.end());
  stack.layers.insert(at, layer);
  return true;
}

std::size_t shared_layers(const engine::LayerStack& a, const engine::LayerStack& b) {
  std::size_t count = 0;
  while (count < a.layers.size() && count < b.layers.size() &&
         a.layers[a.layers.size() - 1 - count] == b.layers[b.layers.size() - 1 - count])
    ++count;
  return count;
}

}  // namespace caisson::control
