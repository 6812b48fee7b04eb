#include "doors/rest/file_views.h"

#include <fmt/format.h>

#include "doors/rest/text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

json::array texts(const std::vector<std::string>& list) {
  json::array array;
  for (const auto& text : list) array.emplace_back(valid_utf8(text));
  return array;
}

json::object labels_json(const std::map<std::string, std::string>& labels) {
  json::object object;
  for (const auto& [name, value] : labels) object[valid_utf8(name)] = valid_utf8(value);
  return object;
}

std::string_view kind_name(control::ChangeKind kind) noexcept {
  switch (kind) {
    case control::ChangeKind::Added:
      return "added";
    case control::ChangeKind::Modified:
      return "modified";
    case control::ChangeKind::Removed:
      return "removed";
    case control::ChangeKind::TypeChanged:
      return "type_changed";
    case control::ChangeKind::Mode:
      return "mode";
  }
  return "modified";
}

}  // namespace

std::string_view storage_name(engine::Storage storage) noexcept {
  return storage == engine::Storage::Disk ? "disk" : "memory";
}

std::string_view checkpoint_name(control::Checkpoints checkpoint) noexcept {
  return checkpoint == control::Checkpoints::EachCall ? "each_call" : "none";
}

json::array to_json(const std::vector<control::VolumeUse>& volumes) {
  json::array array;
  for (const auto& use : volumes) {
    json::object one{
        {"name", valid_utf8(use.name)}, {"path", valid_utf8(use.at)}, {"read_only", use.read_only}};
    array.emplace_back(std::move(one));
  }
  return array;
}

json::object to_json(const control::ImageView& view) {
  // An image's configuration is a stranger's text.
  const control::ImageDefaults& defaults = view.defaults;
  json::object config{{"user", valid_utf8(defaults.user)},
                      {"uid", defaults.uid},
                      {"gid", defaults.gid},
                      {"workdir", valid_utf8(defaults.workdir)},
                      {"env", texts(defaults.environment)},
                      {"entrypoint", texts(defaults.entrypoint)},
                      {"command", texts(defaults.command)},
                      {"ports", texts(defaults.ports)},
                      {"labels", labels_json(defaults.labels)}};
  return json::object{{"reference", valid_utf8(view.reference)},
                      {"digest", valid_utf8(view.digest)},
                      {"platform", valid_utf8(view.platform)},
                      {"layers", texts(view.layers)},
                      {"packed_bytes", view.packed_bytes},
                      {"bytes", view.bytes},
                      {"created_at", store::to_rfc3339(view.created)},
                      {"source", view.source},
                      {"config", std::move(config)}};
}

json::object to_json(const control::ImageProgress& progress) {
  return json::object{{"stage", valid_utf8(progress.stage)},
                      {"layer", valid_utf8(progress.layer)},
                      {"done", progress.done},
                      {"total", progress.total}};
}

json::object to_json(const control::GarbageView& view) {
  return json::object{{"blobs", view.blobs}, {"layers", view.layers}, {"bytes", view.bytes}};
}

json::object to_json(const control::SnapshotView& view) {
  json::object out{{"id", view.id},
                   {"name", valid_utf8(view.name)},
                   {"sandbox", view.sandbox},
                   {"parent", view.parent},
                   {"image", valid_utf8(view.image)},
                   {"kind", engine::to_string(view.kind)},
                   {"consistency", view.consistency},
                   {"durable", view.durable},
                   {"checkpoint", view.checkpoint},
                   {"bytes", view.bytes},
                   {"layers", view.layers},
                   {"created_at", store::to_rfc3339(view.created)},
                   {"labels", labels_json(view.labels)}};
  out["memory"] = nullptr;
  if (view.memory)
    out["memory"] = {{"bytes", view.memory->bytes}, {"runtime", valid_utf8(view.memory->runtime)}};
  return out;
}

json::object to_json(const control::UndoView& view) {
  return json::object{{"snapshot", view.snapshot}, {"calls", view.calls}, {"left", view.left}};
}

json::object to_json(const control::Change& change) {
  return json::object{{"kind", kind_name(change.kind)},
                      {"path", valid_utf8(change.path)},
                      {"mode", fmt::format("{:04o}", change.mode & 07777U)},
                      {"size", change.size}};
}

json::object to_json(const control::MergeView& view) {
  json::array applied;
  for (const auto& change : view.applied) applied.emplace_back(to_json(change));
  return json::object{{"base", valid_utf8(view.base)}, {"applied", std::move(applied)}};
}

json::object to_json(const control::VolumeView& view) {
  return json::object{{"name", valid_utf8(view.name)},
                      {"bytes_max", view.bytes_max},
                      {"bytes", view.bytes},
                      {"created_at", store::to_rfc3339(view.created)},
                      {"sandboxes", texts(view.sandboxes)}};
}

json::object to_json(const engine::PoolFacts& facts) {
  return json::object{{"kind", facts.kind},
                      {"limits", facts.limits},
                      {"live_snapshots", facts.live_snapshots},
                      {"bytes", facts.bytes},
                      {"free_bytes", facts.free_bytes},
                      {"why", valid_utf8(facts.why)}};
}

}  // namespace caisson::rest
