#include "control/file_records.h"

#include "control/record_members.h"

namespace caisson::control {
namespace {

std::unexpected<Error> broken(const store::FileKey& key, const std::string& why) {
  return failure(Errc::Internal, "the record of '" + key.id + "' cannot be read: '" + why + "'");
}

const json::object* inner(const json::object& body, std::string_view name) {
  const json::value* at = body.if_contains(name);
  return at != nullptr && at->is_object() ? &at->get_object() : nullptr;
}

std::string_view kind_word(engine::SnapshotKind kind) { return engine::to_string(kind); }

engine::SnapshotKind kind_of(std::string_view word) {
  if (word == "cow") return engine::SnapshotKind::Cow;
  return word == "copied" ? engine::SnapshotKind::Copied : engine::SnapshotKind::Stacked;
}

}  // namespace

std::string_view to_string(ChangeKind kind) noexcept {
  switch (kind) {
    case ChangeKind::Added:
      return "added";
    case ChangeKind::Modified:
      return "modified";
    case ChangeKind::Removed:
      return "removed";
    case ChangeKind::TypeChanged:
      return "type_changed";
    case ChangeKind::Mode:
      return "mode";
  }
  return "unknown";
}

json::object to_json(const ImageDefaults& defaults) {
  return {{"user", defaults.user},
          {"uid", defaults.uid},
          {"gid", defaults.gid},
          {"workdir", defaults.workdir},
          {"environment", array_of(defaults.environment)},
          {"entrypoint", array_of(defaults.entrypoint)},
          {"command", array_of(defaults.command)},
          {"ports", array_of(defaults.ports)},
          {"labels", object_of(defaults.labels)}};
}

Result<ImageDefaults> read_defaults(const json::object& value) {
  Members members(value);
  ImageDefaults out;
  out.user = members.text("user");
  out.uid = static_cast<std::uint32_t>(members.count("uid"));
  out.gid = static_cast<std::uint32_t>(members.count("gid"));
  out.workdir = members.text("workdir");
  out.environment = members.texts("environment");
  out.entrypoint = members.texts("entrypoint");
  out.command = members.texts("command");
  out.ports = members.texts("ports");
  out.labels = members.map("labels");
  if (!members.wrong().empty()) return failure(Errc::Internal, "defaults." + members.wrong());
  return out;
}

json::object to_json(const engine::LayerStack& stack) {
  return {{"layers", array_of(stack.layers)}, {"host", stack.host}};
}

Result<engine::LayerStack> read_stack(const json::object& value) {
  Members members(value);
  engine::LayerStack out;
  out.layers = members.texts("layers");
  out.host = members.flag("host");
  if (!members.wrong().empty() || out.layers.size() > engine::kLayersMax)
    return failure(Errc::Internal, "stack");
  return out;
}

json::object to_json(const VolumeUse& use) {
  return {{"name", use.name}, {"at", use.at}, {"read_only", use.read_only}};
}

Result<VolumeUse> read_volume_use(const json::object& value) {
  Members members(value);
  VolumeUse out{members.text("name"), members.text("at"), members.flag("read_only")};
  if (!members.wrong().empty()) return failure(Errc::Internal, "volumes." + members.wrong());
  return out;
}

json::object to_json(const ImageRecord& record) {
  json::array blobs;
  for (const std::string& one : record.blobs) blobs.emplace_back(one);
  return {{"digest", record.view.digest},
          {"platform", record.view.platform},
          {"layers", array_of(record.view.layers)},
          {"packed_bytes", record.view.packed_bytes},
          {"bytes", record.view.bytes},
          {"source", record.view.source},
          {"defaults", to_json(record.view.defaults)},
          {"stack", array_of(record.stack)},
          {"blobs", std::move(blobs)}};
}

Result<ImageRecord> read_image(const store::FileKey& key, store::WallTime created,
                               const json::object& body) {
  Members members(body);
  ImageRecord out;
  out.tenant = key.tenant;
  out.view.reference = key.id;
  out.view.created = created;
  out.view.digest = members.text("digest");
  out.view.platform = members.text("platform");
  out.view.layers = members.texts("layers");
  out.view.packed_bytes = members.count("packed_bytes");
  out.view.bytes = members.count("bytes");
  out.view.source = members.text("source");
  out.stack = members.texts("stack");
  for (std::string& one : members.texts("blobs")) out.blobs.insert(std::move(one));
  const json::object* defaults = inner(body, "defaults");
  if (defaults == nullptr) return broken(key, "defaults");
  out.view.defaults = TRY(read_defaults(*defaults));
  if (!members.wrong().empty()) return broken(key, members.wrong());
  return out;
}

namespace {

json::object to_json(const KeptMemory& memory) {
  return {{"name", memory.name},    {"digest", memory.digest}, {"runtime", memory.runtime},
          {"bytes", memory.bytes},  {"files", memory.files},   {"spec", memory.spec},
          {"limits", memory.limits}};
}

Result<KeptMemory> read_memory(const json::object& value) {
  Members members(value);
  KeptMemory out;
  out.name = members.text("name");
  out.digest = members.text("digest");
  out.runtime = members.text("runtime");
  out.bytes = members.count("bytes");
  out.files = members.flag("files");
  out.spec = members.text("spec");
  out.limits = members.text("limits");
  if (!members.wrong().empty()) return failure(Errc::Internal, "memory." + members.wrong());
  return out;
}

}  // namespace

json::object to_json(const SnapshotRecord& record) {
  json::object out{{"name", record.name},
                   {"sandbox", record.sandbox},
                   {"parent", record.parent},
                   {"image", record.image},
                   {"defaults", to_json(record.defaults)},
                   {"stack", to_json(record.stack)},
                   {"base_layers", record.base_layers},
                   {"kind", kind_word(record.kind)},
                   {"making", record.making && !record.sealed},
                   {"durable", record.durable},
                   {"checkpoint", record.checkpoint},
                   {"hidden", record.hidden},
                   {"bytes", record.bytes},
                   {"boot", record.boot},
                   {"labels", object_of(record.labels)}};
  if (record.memory) out["memory"] = to_json(*record.memory);
  return out;
}

Result<SnapshotRecord> read_snapshot(const store::FileKey& key, store::WallTime created,
                                     const json::object& body) {
  Members members(body);
  SnapshotRecord out;
  out.id = key.id;
  out.tenant = key.tenant;
  out.created = created;
  out.name = members.text("name");
  out.sandbox = members.text("sandbox");
  out.parent = members.text("parent");
  out.image = members.text("image");
  out.base_layers = members.count("base_layers");
  out.kind = kind_of(members.text("kind"));
  out.making = members.flag("making");
  out.durable = members.flag("durable");
  out.checkpoint = members.flag("checkpoint");
  out.hidden = members.flag("hidden");
  out.bytes = members.count("bytes");
  out.boot = members.text("boot");
  out.labels = members.map("labels");
  const json::object* defaults = inner(body, "defaults");
  const json::object* stack = inner(body, "stack");
  if (defaults == nullptr || stack == nullptr) return broken(key, "stack");
  out.defaults = TRY(read_defaults(*defaults));
  out.stack = TRY(read_stack(*stack));
  if (const json::object* memory = inner(body, "memory")) out.memory = TRY(read_memory(*memory));
  if (out.base_layers > out.stack.layers.size()) members.fail("base_layers");
  if (!members.wrong().empty()) return broken(key, members.wrong());
  return out;
}

json::object to_json(const VolumeRecord& record) { return {{"bytes_max", record.bytes_max}}; }

Result<VolumeRecord> read_volume(const store::FileKey& key, store::WallTime created,
                                 const json::object& body) {
  Members members(body);
  VolumeRecord out{key.tenant, key.id, members.count("bytes_max"), created};
  if (!members.wrong().empty()) return broken(key, members.wrong());
  return out;
}

std::string consistency_of(engine::SnapshotKind kind) {
  switch (kind) {
    case engine::SnapshotKind::Stacked:
      return "nothing ran: every file is as its last writer left it";
    case engine::SnapshotKind::Cow:
      return "processes ran and stood still for a moment: all files are of that one moment, and "
             "what a program had in its own buffers and not yet written is missing";
    case engine::SnapshotKind::Copied:
      return "processes stood still while the files were copied: all files are of that time, and "
             "what a program had in its own buffers and not yet written is missing";
  }
  return "unknown";
}

SnapshotView snapshot_view(const SnapshotRecord& record) {
  SnapshotView out;
  out.id = record.id;
  out.name = record.name;
  out.tenant = record.tenant;
  out.sandbox = record.sandbox;
  out.parent = record.parent;
  out.image = record.image;
  out.kind = record.kind;
  out.consistency = record.broken ? "a layer of it is missing: it cannot be used any more"
                                  : consistency_of(record.kind);
  out.durable = record.durable;
  out.checkpoint = record.checkpoint;
  out.bytes = record.bytes;
  out.layers = record.stack.layers.size() - record.base_layers;
  out.created = record.created;
  out.labels = record.labels;
  if (record.memory) out.memory = MemoryView{record.memory->bytes, record.memory->runtime};
  return out;
}

}  // namespace caisson::control
