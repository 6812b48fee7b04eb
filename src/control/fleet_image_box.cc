// What of an image happens in a box of its own: unpacking its layers, and reading its user files.
// Then it is on record.
#include <fmt/format.h>

#include <algorithm>

#include "control/fleet_impl.h"
#include "image/user.h"

namespace caisson::control {
namespace {

constexpr std::uint64_t kReadingMemoryBytes = 256ULL << 20U;
constexpr std::uint32_t kReadingProcesses = 16;
constexpr seconds kReadingLife{60};

std::string port_text(const image::ExposedPort& port) {
  if (port.first == port.last) return fmt::format("{}/{}", port.first, port.protocol);
  return fmt::format("{}-{}/{}", port.first, port.last, port.protocol);
}

ImageDefaults defaults_of(const image::ImageConfig& config, const image::ResolvedUser& user) {
  ImageDefaults out;
  out.user = config.user.str();
  out.uid = user.uid;
  out.gid = user.gid;
  out.workdir = config.workdir;
  out.environment = config.env;
  const bool has_home = std::ranges::any_of(
      out.environment, [](const std::string& one) { return one.starts_with("HOME="); });
  if (!has_home && !user.home.empty()) out.environment.push_back("HOME=" + user.home);
  out.entrypoint = config.entrypoint;
  out.command = config.cmd;
  for (const image::ExposedPort& port : config.ports) out.ports.push_back(port_text(port));
  out.labels = config.labels;
  return out;
}

engine::LaunchRequest reading_request(std::vector<std::string> layers) {
  engine::LaunchRequest request;
  request.stack.layers = std::move(layers);
  request.stack.host = false;
  request.hostname = "image";
  request.uid = kUidDefault;
  request.gid = kUidDefault;
  request.limits.memory_bytes = kReadingMemoryBytes;
  request.limits.processes = kReadingProcesses;
  request.limits.life_us =
      static_cast<std::uint64_t>(duration_cast<microseconds>(kReadingLife).count());
  return request;
}

bool same_digest(const wire::LayerDone& done, const image::Digest& diff_id) {
  std::string hex;
  for (const std::uint8_t byte : done.digest) hex += fmt::format("{:02x}", byte);
  return diff_id.hex() == hex;
}

}  // namespace

// Once for each blob, however many images want it; what it unpacks to is what the image says.
awaitable<Result<void>> FleetImpl::unpack(image::Layer layer, UniqueFd file,
                                          std::function<void(ImageProgress)> tell) {
  const auto name = layer_name(layer.digest, layer.diff_id);
  if (!name) co_return std::unexpected(name.error());
  const auto hold = files_.works.hold({*name});
  auto alone = co_await files_.works.alone(*name);
  if (!alone) co_return std::unexpected(alone.error());
  if (files_.layers.contains(*name)) co_return Result<void>();
  auto turn = co_await files_.works.unpacks().take();
  if (!turn) co_return std::unexpected(turn.error());
  if (!file) {
    auto opened = co_await files_.blobs->open_verified(layer.digest);
    if (!opened) co_return std::unexpected(opened.error().within("unpack"));
    file = *std::move(opened);
  }
  LayerJob job;
  job.kind = wire::JobKind::Unpack;
  job.bytes_max = options_.images.layer_bytes_max;
  job.entries_max = kLayerEntriesMax;
  job.ratio_max = kUnpackRatioMax;
  job.file = std::move(file);
  job.layer = *name;
  engine::StoreMount target;
  target.kind = engine::StoreMount::Kind::Target;
  target.at = std::string(wire::kLayerRoot) + "/out";
  target.bytes_max = options_.images.layer_bytes_max;
  job.mounts.push_back(std::move(target));
  job.progress = [tell, blob = layer.digest.str(), size = layer.size](const auto& at) {
    if (tell) tell(ImageProgress{"unpack", blob, std::min(at.bytes_in, size), size});
  };
  job.keep = [diff_id = layer.diff_id](const LayerOutcome& outcome) -> Result<bool> {
    if (same_digest(outcome.done, diff_id)) return true;
    return failure(Errc::Protocol, "a layer unpacks to something else than '" + diff_id.str() +
                                       "', which its image says it is");
  };
  const auto done = co_await files_.works.run(std::move(job));
  if (!done) co_return std::unexpected(done.error().within("unpack"));
  files_.layers.insert(*name);
  co_return Result<void>();
}

// The image is on record when every layer of it is there and durable.
awaitable<Result<ImageRecord>> FleetImpl::shelve(const Caller& caller, image::PulledImage image,
                                                 std::string source,
                                                 std::function<void(ImageProgress)> tell) {
  if (image.layers.empty() || image.layers.size() > engine::kLayersMax)
    co_return failure(Errc::Unsupported, fmt::format("image: it has {} layers, want 1 to {}",
                                                     image.layers.size(), engine::kLayersMax));
  ImageRecord made;
  made.tenant = caller.tenant;
  std::vector<std::string> names;
  for (const image::Layer& layer : image.layers) {
    auto name = layer_name(layer.digest, layer.diff_id);
    if (!name) co_return std::unexpected(name.error());
    names.push_back(*std::move(name));
    made.view.layers.push_back(layer.diff_id.str());
    made.view.packed_bytes += layer.size;
  }
  const ImageRecord* old = files_.images.find(caller.tenant, image.reference);
  std::uint64_t instead =
      old != nullptr && old->view.reference == image.reference.str() ? old->view.bytes : 0;
  if (const auto room = has_room(caller.tenant, made.view.packed_bytes, instead); !room)
    co_return std::unexpected(room.error().within("image"));
  const auto hold = files_.works.hold(names);
  for (const image::Layer& layer : image.layers) {
    auto unpacked = co_await unpack(layer, UniqueFd(), tell);
    if (!unpacked) co_return std::unexpected(unpacked.error());
  }
  // An overlay takes a layer once; the upper of two alike hides the lower one.
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (std::ranges::find(made.stack, *name) == made.stack.end()) made.stack.push_back(*name);
  }
  const auto user = co_await image_user(made.stack, image.config.user);
  if (!user) co_return std::unexpected(user.error());
  made.view.reference = image.reference.str();
  made.view.digest = image.manifest_digest.str();
  made.view.platform = image.config.platform.str();
  made.view.source = std::move(source);
  made.view.created = store::wall_now();
  made.view.defaults = defaults_of(image.config, *user);
  for (const image::Digest& blob : image::blobs_of(image)) made.blobs.insert(blob.str());
  if (const auto stored = co_await launcher_->stored(); stored) {
    for (const engine::StoreEntry& entry : *stored) {
      if (entry.kind == engine::StoreEntry::Kind::Layer &&
          std::ranges::find(made.stack, entry.name) != made.stack.end())
        made.view.bytes += entry.bytes;
    }
  }
  old = files_.images.find(caller.tenant, image.reference);
  instead = old != nullptr && old->view.reference == made.view.reference ? old->view.bytes : 0;
  if (const auto room = has_room(caller.tenant, made.view.bytes, instead); !room)
    co_return std::unexpected(room.error().within("image"));
  store::Store::Batch batch;
  batch.files.push_back(files_.seal->seal(made.key(), made.view.created, to_json(made)));
  const auto written = co_await record(std::move(batch));
  if (!written) co_return std::unexpected(written.error());
  files_.images.put(made);
  co_return made;
}

// Numbers need no file, where the group is one. Anything else is looked up in the image's own
// files, by our own reader, in a box: a user's number alone has the group that its line there says.
awaitable<Result<image::ResolvedUser>> FleetImpl::image_user(std::vector<std::string> layers,
                                                             image::UserSpec spec) {
  const bool group_known = spec.gid || spec.empty() || spec.uid == 0U;
  if (!spec.needs_names() && group_known) {
    auto user = image::resolve_user(spec, "", "");
    if (user && user->uid == 0) user->home = "/root";
    co_return user;
  }
  std::vector<UniqueFd> no_folders;
  auto reply =
      co_await launcher_->launch(reading_request(std::move(layers)), std::move(no_folders));
  if (!reply) co_return std::unexpected(reply.error().within("image user"));
  auto guest =
      co_await engine::GuestChannel::open(executor_, std::move(reply->stream), reply->nonce);
  Result<std::string> passwd;
  Result<std::string> group;
  if (guest) {
    passwd = co_await account_file(*guest, "/etc/passwd");
    if (passwd) group = co_await account_file(*guest, "/etc/group");
    (*guest)->close(Error{Errc::Gone, "done", 0});
  }
  co_await clear_away(reply->id);
  if (!guest) co_return std::unexpected(guest.error().within("image user"));
  if (!passwd) co_return std::unexpected(passwd.error());
  if (!group) co_return std::unexpected(group.error());
  co_return image::resolve_user(spec, *passwd, *group);
}

// A regular file of a bounded size, or nothing where there is none.
awaitable<Result<std::string>> FleetImpl::account_file(std::shared_ptr<engine::GuestChannel> guest,
                                                       std::string path) {
  const engine::GuestUser root{0, 0};
  const auto entry = co_await guest->stat(root, path, false);
  if (!entry && entry.error().code == Errc::NotFound) co_return std::string();
  if (!entry) co_return std::unexpected(entry.error().within("image user"));
  if (entry->type != wire::EntryType::File)
    co_return failure(Errc::Protocol, "image user: " + path + " of the image is no regular file");
  if (entry->size > image::kAccountFileBytesMax)
    co_return failure(Errc::TooLarge, "image user: " + path + " of the image is larger than 1 MiB");
  std::string text;
  if (entry->size == 0) co_return text;
  auto reader = co_await guest->read(root, path, 0, entry->size);
  if (!reader) co_return std::unexpected(reader.error().within("image user"));
  for (;;) {
    const auto bytes = co_await (*reader)->next();
    if (!bytes) co_return std::unexpected(bytes.error().within("image user"));
    if (bytes->empty()) break;
    if (text.size() + bytes->size() > image::kAccountFileBytesMax)
      co_return failure(Errc::TooLarge,
                        "image user: " + path + " of the image is larger than 1 MiB");
    text.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  co_return text;
}

}  // namespace caisson::control
