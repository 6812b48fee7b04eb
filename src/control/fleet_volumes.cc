// Volumes: folders of a tenant that outlive sandboxes, with a limit each.
#include <fmt/format.h>

#include <algorithm>

#include "control/fleet_impl.h"
#include "control/shield.h"
#include "control/text.h"

namespace caisson::control {
namespace {

std::unexpected<Error> no_volume(std::string_view name) {
  return failure(Errc::NotFound, fmt::format("volume '{}' does not exist", cut_text(name, 64)));
}

// Among what is held: no layer is called so.
std::string held_volume(std::string_view tenant, std::string_view name) {
  return "volume/" + launcher_volume(tenant, name);
}

VolumeView volume_view(const VolumeRecord& record) {
  VolumeView out;
  out.name = record.name;
  out.tenant = record.tenant;
  out.bytes_max = record.bytes_max;
  out.created = record.created;
  return out;
}

}  // namespace

std::vector<std::string> FleetImpl::users_of(std::string_view tenant,
                                             std::string_view volume) const {
  std::vector<std::string> out;
  for (const auto& [id, sandbox] : living_) {
    const bool has = std::ranges::any_of(sandbox->kept.volumes,
                                         [&](const VolumeUse& use) { return use.name == volume; });
    if (has && sandbox->tenant == tenant) out.push_back(id);
  }
  return out;
}

void FleetImpl::tell_volumes(const Sandbox& sandbox, Audited& audit) {
  if (sandbox.kept.volumes.empty()) return;
  boost::json::array places;
  for (const VolumeUse& use : sandbox.kept.volumes) places.emplace_back(use.at);
  audit.detail["without_volumes"] = std::move(places);
}

Result<void> FleetImpl::mount_volumes(const std::string& tenant, SandboxPlan& plan) const {
  for (std::size_t i = 0; i < plan.volumes.size(); ++i) {
    const VolumeUse& use = plan.volumes[i];
    if (files_.volumes.find(tenant, use.name) == nullptr) {
      const std::string field = fmt::format("volumes[{}].name", i);
      return std::unexpected(Error{Errc::NotFound,
                                   fmt::format("{}: volume '{}' does not exist; make it first",
                                               field, cut_text(use.name, 64)),
                                   0, field});
    }
    engine::StoreMount mount;
    mount.kind = engine::StoreMount::Kind::Volume;
    mount.at = use.at;
    mount.name = launcher_volume(tenant, use.name);
    mount.read_only = use.read_only;
    plan.spec.request.store_mounts.push_back(std::move(mount));
  }
  return {};
}

LayerWorks::Hold FleetImpl::hold_volumes(const std::string& tenant, const SandboxPlan& plan) const {
  std::vector<std::string> names;
  for (const VolumeUse& use : plan.volumes) names.push_back(held_volume(tenant, use.name));
  return files_.works.hold(std::move(names));
}

awaitable<Result<VolumeView>> FleetImpl::set_volume(const Caller& caller, std::string name,
                                                    std::uint64_t bytes_max) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  co_return co_await shielded(executor_, set_volume_now(caller, std::move(name), bytes_max));
}

awaitable<Result<VolumeView>> FleetImpl::set_volume_now(Caller caller, std::string name,
                                                        std::uint64_t bytes_max) {
  Audited audit(*this, row(caller, "volume.set", "", name));
  const auto refuse = [](const Error& error) -> Result<VolumeView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  Result<void> good = check_volume_name(name, "name");
  if (good) good = check_volume_bytes(bytes_max);
  const VolumeRecord* old = files_.volumes.find(caller.tenant, name);
  if (good && old == nullptr && files_.volumes.list(caller.tenant).size() >= kVolumesMax)
    good = failure(Errc::Exhausted,
                   fmt::format("{} volumes are there; remove one first", kVolumesMax));
  if (good) good = has_room(caller.tenant, bytes_max, old != nullptr ? old->bytes_max : 0);
  if (!good) co_return co_await settle(audit, refuse(good.error()));
  VolumeRecord record{caller.tenant, name, bytes_max,
                      old != nullptr ? old->created : store::wall_now()};
  const bool fresh = old == nullptr;
  const auto made = co_await launcher_->set_volume(launcher_volume(caller.tenant, name), bytes_max);
  if (!made) co_return co_await settle(audit, refuse(made.error()));
  audit.detail["bytes_max"] = bytes_max;
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.files.push_back(files_.seal->seal(record.key(), record.created, to_json(record)));
  const auto written = co_await this->record(std::move(batch));
  audit.written();
  if (!written) co_return refuse(written.error());
  files_.volumes.put(record);
  if (fresh) events_.add("volume.created", caller.tenant, "", {{"name", name}});
  VolumeView out = volume_view(record);
  out.sandboxes = users_of(caller.tenant, name);
  co_return out;
}

awaitable<Result<std::vector<VolumeView>>> FleetImpl::volumes(const Caller& caller) {
  const std::string tenant = caller.tenant;
  std::vector<VolumeView> out;
  if (files_.volumes.list(tenant).empty()) co_return out;
  const auto stored = co_await launcher_->stored();
  if (!stored) co_return std::unexpected(stored.error());
  for (const VolumeRecord& record : files_.volumes.list(tenant)) {
    VolumeView view = volume_view(record);
    const std::string name = launcher_volume(tenant, record.name);
    const auto at = std::ranges::find_if(*stored, [&](const engine::StoreEntry& entry) {
      return entry.kind == engine::StoreEntry::Kind::Volume && entry.name == name;
    });
    if (at != stored->end()) view.bytes = at->bytes;
    view.sandboxes = users_of(tenant, record.name);
    out.push_back(std::move(view));
  }
  co_return out;
}

awaitable<Result<void>> FleetImpl::remove_volume(const Caller& caller, std::string name) {
  if (files_.volumes.find(caller.tenant, name) == nullptr) co_return no_volume(name);
  co_return co_await shielded(executor_, remove_volume_now(caller, std::move(name)));
}

awaitable<Result<void>> FleetImpl::remove_volume_now(Caller caller, std::string name) {
  Audited audit(*this, row(caller, "volume.remove", "", name));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  const VolumeRecord* found = files_.volumes.find(caller.tenant, name);
  if (found == nullptr) co_return co_await settle(audit, Result<void>(no_volume(name)));
  const VolumeRecord record = *found;
  if (const auto users = users_of(caller.tenant, name); !users.empty()) {
    Result<void> busy =
        failure(Errc::Busy, fmt::format("volume '{}' is in sandbox {}{}; destroy that first", name,
                                        users.front(), users.size() > 1 ? " and others" : ""));
    co_return co_await settle(audit, std::move(busy));
  }
  if (files_.works.held(held_volume(caller.tenant, name))) {
    Result<void> busy = failure(
        Errc::Busy, fmt::format("volume '{}' is in a sandbox that is being made; try again", name));
    co_return co_await settle(audit, std::move(busy));
  }
  // Out of sight first, so that nobody mounts what is going.
  files_.volumes.remove(caller.tenant, name);
  auto dropped = co_await launcher_->drop(engine::StoreEntry::Kind::Volume,
                                          launcher_volume(caller.tenant, name));
  if (!dropped && dropped.error().code != Errc::NotFound) {
    files_.volumes.put(record);
    co_return co_await settle(audit, std::move(dropped));
  }
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.forgotten_files.push_back(record.key());
  auto written = co_await this->record(std::move(batch));
  audit.written();
  if (!written) co_return std::unexpected(written.error());
  events_.add("volume.removed", caller.tenant, "", {{"name", name}});
  co_return Result<void>();
}

}  // namespace caisson::control
