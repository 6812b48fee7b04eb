#include "doors/rest/file_wishes.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "doors/rest/call.h"
#include "doors/rest/text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr TextRule kReferenceRule{1, kReferenceBytesMax, false};
constexpr TextRule kSnapshotRule{1, kSnapshotNameMax, false};
constexpr TextRule kNameRule{0, 128, false};
constexpr TextRule kArgumentRule{0, control::kCommandBytesMax, false};

// A path inside that must say all of itself.
void check_absolute(Fields& fields, std::string_view name, const std::string& path) {
  if (!path.starts_with('/')) {
    fields.complain(name, fmt::format("is \"{}\": want an absolute path inside, such as /data",
                                      valid_utf8(cut_utf8(path, 128))));
    return;
  }
  if (const auto good = guest_path(fields.path(name), path); !good) {
    fields.adopt(std::unexpected(good.error()));
  }
}

Result<control::VolumeUse> volume_use(const json::object& body, std::string prefix) {
  Fields fields(body, std::move(prefix));
  control::VolumeUse use;
  fields.require("name");
  fields.require("path");
  use.name = fields.text("name", {1, kVolumeNameMax, false}).value_or("");
  use.at = fields.text("path", {1, 4096, false}).value_or("");
  if (!use.at.empty()) check_absolute(fields, "path", use.at);
  use.read_only = fields.boolean("read_only").value_or(false);
  TRY(fields.finish());
  return use;
}

void read_volumes(Fields& fields, control::CreateWish& wish) {
  const json::value* value = fields.any("volumes");
  if (value == nullptr || value->is_null()) return;
  if (!value->is_array()) {
    fields.complain("volumes", "is not a list: want [{\"name\": …, \"path\": …}]");
    return;
  }
  const json::array& list = value->get_array();
  if (list.size() > control::kSandboxVolumesMax) {
    fields.complain("volumes", fmt::format("has {} items: at most {}", list.size(),
                                           control::kSandboxVolumesMax));
    return;
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("volumes[{}]", i);
    if (!list[i].is_object()) {
      fields.complain(place, "is not an object: want {\"name\": …, \"path\": …}");
      return;
    }
    auto use = volume_use(list[i].get_object(), fields.path(place));
    if (!use) {
      fields.adopt(std::unexpected(use.error()));
      return;
    }
    wish.volumes.push_back(*std::move(use));
  }
}

// By our own name or by Cagebox's, not by both.
void read_image(Fields& fields, control::CreateWish& wish) {
  wish.image = fields.text("base_image", kReferenceRule);
  auto image = fields.text("image", kReferenceRule);
  if (image && wish.image) {
    fields.complain("image", "and base_image are both there, and are the same: give one of them");
  }
  if (image) wish.image = std::move(image);
  wish.snapshot = fields.text("snapshot", kSnapshotRule);
  wish.memory = fields.boolean("memory");
  if (wish.snapshot && wish.image) {
    fields.complain("snapshot", "and an image are both there: give one of them");
  }
}

}  // namespace

std::map<std::string, std::string> read_labels(Fields& fields) {
  std::map<std::string, std::string> labels;
  for (auto& [name, value] :
       fields.pairs("labels", control::kLabelsMax, {1, 128, false}, {0, 1024, false})) {
    labels.emplace(std::move(name), std::move(value));
  }
  return labels;
}

void read_file_state(Fields& fields, control::CreateWish& wish) {
  read_image(fields, wish);
  if (const auto storage = fields.choice("storage", {"memory", "disk"})) {
    wish.storage = *storage == "disk" ? engine::Storage::Disk : engine::Storage::Memory;
  }
  wish.persistent = fields.boolean("persistent");
  if (const auto checkpoint = fields.choice("checkpoint", {"none", "each_call"})) {
    wish.checkpoint =
        *checkpoint == "each_call" ? control::Checkpoints::EachCall : control::Checkpoints::None;
  }
  read_volumes(fields, wish);
}

Result<control::PullWish> pull_wish(const json::object& body) {
  Fields fields(body);
  control::PullWish wish;
  fields.require("reference");
  wish.reference = fields.text("reference", kReferenceRule).value_or("");
  wish.platform = fields.text("platform", {1, 64, false});
  const auto username = fields.text("username", {1, 256, false});
  auto password = fields.text("password", {1, kPasswordBytesMax, false});
  if (username.has_value() != password.has_value()) {
    fields.complain(username ? "password" : "username",
                    "is missing: give username and password, or neither");
  }
  wish.username = username.value_or("");
  wish.password = std::move(password).value_or("");
  wish.refresh = fields.boolean("refresh").value_or(true);
  TRY(fields.finish());
  return wish;
}

Result<control::BuildWish> build_wish(const json::object& body) {
  Fields fields(body);
  control::BuildWish wish;
  fields.require("reference");
  fields.require("snapshot");
  wish.reference = fields.text("reference", kReferenceRule).value_or("");
  wish.snapshot = fields.text("snapshot", kSnapshotRule).value_or("");
  wish.entrypoint = fields.texts("entrypoint", control::kArgumentsMax, kArgumentRule);
  wish.command = fields.texts("command", control::kArgumentsMax, kArgumentRule);
  wish.workdir = fields.text("workdir", {1, 4096, false});
  if (wish.workdir) check_absolute(fields, "workdir", *wish.workdir);
  wish.user = fields.text("user", {0, 256, false});
  wish.labels = read_labels(fields);
  TRY(fields.finish());
  return wish;
}

Result<control::SnapshotWish> snapshot_wish(const json::object& body) {
  Fields fields(body);
  control::SnapshotWish wish;
  wish.name = fields.text("name", kNameRule).value_or("");
  wish.labels = read_labels(fields);
  wish.memory = fields.boolean("memory").value_or(false);
  TRY(fields.finish());
  return wish;
}

Result<control::ForkWish> fork_wish(const json::object& body) {
  Fields fields(body);
  control::ForkWish wish;
  wish.name = fields.text("name", kNameRule).value_or("");
  wish.labels = read_labels(fields);
  wish.hostname = fields.text("hostname", {1, 63, false});
  wish.memory = fields.boolean("memory");
  TRY(fields.finish());
  return wish;
}

Result<control::UndoWish> undo_wish(const json::object& body) {
  Fields fields(body);
  control::UndoWish wish;
  const auto calls = fields.integer("calls", 1, control::kCheckpointsKept);
  wish.snapshot = fields.text("snapshot", kSnapshotRule);
  if (calls && wish.snapshot) {
    fields.complain("calls", "and snapshot are both there: give one of them");
  }
  if (!wish.snapshot) wish.calls = static_cast<std::uint32_t>(calls.value_or(1));
  wish.end_processes = fields.boolean("end_processes").value_or(false);
  TRY(fields.finish());
  return wish;
}

Result<control::PromoteWish> promote_wish(const json::object& body) {
  Fields fields(body);
  control::PromoteWish wish;
  fields.require("tier");
  wish.tier = fields.text("tier", {1, 64, false}).value_or("");
  wish.end_processes = fields.boolean("end_processes").value_or(false);
  TRY(fields.finish());
  return wish;
}

Result<control::MergeWish> merge_wish(const json::object& body) {
  Fields fields(body);
  control::MergeWish wish;
  fields.require("from");
  wish.from = fields.text("from", {1, kStateBytesMax, false}).value_or("");
  wish.end_processes = fields.boolean("end_processes").value_or(false);
  TRY(fields.finish());
  return wish;
}

Result<std::uint64_t> volume_bytes(const json::object& body) {
  Fields fields(body);
  fields.require("bytes");
  const auto bytes = fields.integer("bytes", kVolumeBytesMin, kVolumeBytesMax);
  TRY(fields.finish());
  return static_cast<std::uint64_t>(*bytes);
}

}  // namespace caisson::rest
