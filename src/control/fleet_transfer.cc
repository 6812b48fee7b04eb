// Images in and out by archives, and out of snapshots.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "control/await_store.h"
#include "control/fleet_impl.h"
#include "control/guest_path.h"
#include "control/shield.h"
#include "control/spool.h"
#include "control/text.h"
#include "image/build.h"
#include "image/export.h"
#include "image/import.h"
#include "sys/file.h"

namespace caisson::control {
namespace {

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == ENOSPC)
      return failure(Errc::StoreFull, "import: the disk is full; free some space");
    if (put < 0) return sys_failure("import: write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

// What export writes, as somebody reads it: one piece at a time is on its way.
class ExportPipe {
 public:
  explicit ExportPipe(const boost::asio::any_io_executor& executor)
      : filled_(executor), taken_(executor) {}

  awaitable<Result<void>> put(std::span<const std::byte> bytes) {
    if (left_) co_return failure(Errc::Gone, "the caller left");
    piece_ = bytes;
    filled_.wake();
    const auto woken = co_await taken_.wait();
    if (left_ || woken == engine::Wake::Cancelled) co_return failure(Errc::Gone, "the caller left");
    co_return Result<void>();
  }
  void finish(Result<void> result) {
    result_ = std::move(result);
    filled_.wake();
  }
  awaitable<Result<std::span<const std::byte>>> next() {
    if (std::exchange(given_, false)) {
      piece_ = {};
      taken_.wake();
    }
    while (piece_.empty() && !result_) {
      if (co_await filled_.wait() == engine::Wake::Cancelled)
        co_return failure(Errc::Gone, "the caller left");
    }
    if (!piece_.empty()) {
      given_ = true;
      co_return piece_;
    }
    if (!*result_) co_return std::unexpected(result_->error());
    co_return std::span<const std::byte>();
  }
  void leave() {
    left_ = true;
    taken_.wake();
  }

 private:
  engine::Wakeup filled_;
  engine::Wakeup taken_;
  std::span<const std::byte> piece_;
  std::optional<Result<void>> result_;
  bool given_ = false;
  bool left_ = false;
};

class ExportReader final : public ByteReader {
 public:
  explicit ExportReader(std::shared_ptr<ExportPipe> pipe) : pipe_(std::move(pipe)) {}
  ~ExportReader() override { pipe_->leave(); }
  ExportReader(const ExportReader&) = delete;
  ExportReader& operator=(const ExportReader&) = delete;
  awaitable<Result<std::span<const std::byte>>> next() override { return pipe_->next(); }

 private:
  std::shared_ptr<ExportPipe> pipe_;
};

awaitable<void> run_export(image::BlobStore& blobs, image::PulledImage image,
                           std::shared_ptr<ExportPipe> pipe) {
  image::TarSink sink = [pipe](std::span<const std::byte> bytes) { return pipe->put(bytes); };
  auto done = co_await image::export_image(blobs, std::move(image), std::move(sink));
  pipe->finish(std::move(done));
}

Result<image::ImageConfig> config_of(const BuildWish& wish, image::ImageConfig config) {
  if (wish.entrypoint) {
    config.entrypoint = *wish.entrypoint;
    if (!wish.command) config.cmd.clear();  // it was for the other entry point
  }
  if (wish.command) config.cmd = *wish.command;
  if (wish.workdir) config.workdir = TRY(guest_path(*wish.workdir, "/", "workdir"));
  if (wish.user) config.user = TRY(image::parse_user(*wish.user));
  for (const auto& [name, value] : wish.labels) config.labels[name] = value;
  // Judged as one that came from outside.
  return image::parse_config(image::to_json(config));
}

}  // namespace

class Upload final : public ImageUpload {
 public:
  Upload(FleetImpl& fleet, Caller caller, ImportWish wish, UniqueFd file)
      : fleet_(fleet), caller_(std::move(caller)), wish_(std::move(wish)), file_(std::move(file)) {}

  awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
    count_ += bytes.size();
    if (count_ > image::kArchiveBytesMax)
      co_return failure(Errc::TooLarge, "import: the archive is larger than 64 GiB");
    if (!file_) co_return failure(Errc::Gone, "import: it is finished");
    auto work = [fd = file_.get(), text = std::string_view(
                                       reinterpret_cast<const char*>(bytes.data()), bytes.size())] {
      return write_all(fd, text);
    };
    co_return co_await on_worker(fleet_.files_.disk, std::move(work));
  }
  awaitable<Result<ImageView>> finish() override {
    if (!file_) co_return failure(Errc::Gone, "import: it is finished");
    co_return co_await shielded(fleet_.executor_,
                                fleet_.import_now(caller_, wish_, std::move(file_)));
  }

 private:
  FleetImpl& fleet_;
  Caller caller_;
  ImportWish wish_;
  UniqueFd file_;
  std::uint64_t count_ = 0;
};

awaitable<Result<std::unique_ptr<ImageUpload>>> FleetImpl::import_image(const Caller& caller,
                                                                        ImportWish wish) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  if (const auto here = images_here(); !here) co_return std::unexpected(here.error());
  if (const auto read = image::Reference::parse(wish.reference); !read)
    co_return std::unexpected(read.error());
  auto file = nameless_file(options_.images.folder);
  if (!file) co_return std::unexpected(file.error().within("import"));
  co_return std::make_unique<Upload>(*this, caller, std::move(wish), *std::move(file));
}

awaitable<Result<ImageView>> FleetImpl::import_now(Caller caller, ImportWish wish,
                                                   UniqueFd archive) {
  Audited audit(*this, row(caller, "image.import", "", wish.reference));
  const auto refuse = [](const Error& error) -> Result<ImageView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  image::ImportOptions options;
  options.reference = *image::Reference::parse(wish.reference);
  options.pick = wish.pick.value_or("");
  if (files_.images.find(caller.tenant, options.reference) == nullptr &&
      files_.images.count(caller.tenant) >= kImagesMax)
    co_return co_await settle(
        audit, refuse(Error{Errc::Exhausted, "image: 1000 images are there; remove one first", 0,
                            "image"}));
  if (const auto looked = co_await look(); !looked)
    co_return co_await settle(audit, refuse(looked.error()));
  auto image = co_await image::import_archive(*files_.blobs, std::move(archive), options);
  if (!image) co_return co_await settle(audit, refuse(image.error().within("import")));
  auto record = co_await shelve(caller, *std::move(image), "import", nullptr);
  if (!record) co_return co_await settle(audit, refuse(record.error()));
  audit.detail["digest"] = record->view.digest;
  events_.add("image.imported", caller.tenant, "",
              {{"reference", record->view.reference}, {"digest", record->view.digest}});
  co_return co_await settle(audit, Result<ImageView>(std::move(record->view)));
}

awaitable<Result<std::unique_ptr<ByteReader>>> FleetImpl::export_image(const Caller& caller,
                                                                       std::string reference) {
  if (const auto here = images_here(); !here) co_return std::unexpected(here.error());
  const auto parsed = image::Reference::parse(reference);
  if (!parsed) co_return std::unexpected(parsed.error());
  const ImageRecord* found = files_.images.find(caller.tenant, *parsed);
  if (found == nullptr)
    co_return failure(Errc::NotFound,
                      fmt::format("image '{}' is not here", cut_text(reference, 200)));
  Audited audit(*this, row(caller, "image.export", "", found->view.reference));
  const auto digest = image::Digest::parse(found->view.digest);
  Result<image::PulledImage> image = failure(Errc::Internal, "its digest cannot be read");
  if (digest) image = co_await image::load_image(*files_.blobs, *parsed, *digest);
  Result<std::unique_ptr<ByteReader>> result;
  if (image) {
    const auto pipe = std::make_shared<ExportPipe>(executor_);
    boost::asio::co_spawn(executor_, run_export(*files_.blobs, *std::move(image), pipe),
                          boost::asio::detached);
    result = std::make_unique<ExportReader>(pipe);
  } else {
    result = std::unexpected(image.error().within("export"));
  }
  co_return co_await settle(audit, std::move(result));
}

awaitable<Result<ImageView>> FleetImpl::build_image(const Caller& caller, BuildWish wish) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  co_return co_await shielded(executor_, build_now(caller, std::move(wish)));
}

awaitable<Result<ImageView>> FleetImpl::build_now(Caller caller, BuildWish wish) {
  Audited audit(*this, row(caller, "image.build", "", wish.reference));
  const auto refuse = [](const Error& error) -> Result<ImageView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  if (const auto here = images_here(); !here)
    co_return co_await settle(audit, refuse(here.error()));
  const auto snapshot = usable_snapshot(caller, wish.snapshot);
  if (!snapshot) co_return co_await settle(audit, refuse(snapshot.error()));
  audit.detail["snapshot"] = snapshot->id;
  auto record = co_await build_layers(caller, wish, *snapshot);
  if (!record) co_return co_await settle(audit, refuse(record.error().within("build")));
  events_.add("image.built", caller.tenant, "",
              {{"reference", record->view.reference}, {"snapshot", snapshot->id}});
  co_return co_await settle(audit, Result<ImageView>(std::move(record->view)));
}

// The image below the snapshot, as it is, and one layer more for each of the snapshot's own. Of one
// that stands on the host's programs it is these layers alone: the host's files are not ours to
// give away.
awaitable<Result<ImageRecord>> FleetImpl::build_layers(const Caller& caller, const BuildWish& wish,
                                                       SnapshotRecord snapshot) {
  const auto reference = image::Reference::parse(wish.reference);
  if (!reference) co_return std::unexpected(reference.error());
  const auto hold = files_.works.hold(snapshot.stack.layers);
  image::ImageConfig config;
  config.platform = image::host_platform();
  std::vector<image::LayerSource> sources;
  if (snapshot.image != "host") {
    const auto below = image::Reference::parse(snapshot.image);
    const ImageRecord* base = below ? files_.images.find(caller.tenant, *below) : nullptr;
    const std::vector<std::string> lower(
        snapshot.stack.layers.end() - static_cast<std::ptrdiff_t>(snapshot.base_layers),
        snapshot.stack.layers.end());
    if (base == nullptr || base->stack != lower)
      co_return failure(Errc::NotFound,
                        fmt::format("the image '{0}' below the snapshot is not here any more, or "
                                    "another one has its name; get it again: caisson image pull "
                                    "{0}",
                                    snapshot.image));
    const auto digest = image::Digest::parse(base->view.digest);
    if (!digest) co_return std::unexpected(digest.error());
    auto loaded = co_await image::load_image(*files_.blobs, *below, *digest);
    if (!loaded) co_return std::unexpected(loaded.error());
    config = std::move(loaded->config);
    for (image::Layer& layer : loaded->layers) {
      image::LayerSource source;
      source.stored = std::move(layer);
      sources.push_back(std::move(source));
    }
  }
  auto wanted = config_of(wish, std::move(config));
  if (!wanted) co_return std::unexpected(wanted.error());
  for (std::size_t left = snapshot.stack.layers.size() - snapshot.base_layers; left > 0; --left) {
    auto packed = co_await pack(snapshot.stack.layers[left - 1]);
    if (!packed) co_return std::unexpected(packed.error());
    image::LayerSource source;
    source.fd = *std::move(packed);
    sources.push_back(std::move(source));
  }
  auto image =
      co_await image::make_image(*files_.blobs, *reference, *std::move(wanted), std::move(sources));
  if (!image) co_return std::unexpected(image.error());
  co_return co_await shelve(caller, *std::move(image), "build", nullptr);
}

awaitable<Result<UniqueFd>> FleetImpl::pack(std::string layer) {
  auto file = nameless_file(options_.images.folder);
  if (!file) co_return std::unexpected(file.error());
  UniqueFd ours(::fcntl(file->get(), F_DUPFD_CLOEXEC, 0));
  if (!ours) co_return sys_failure("pack", errno);
  LayerJob job;
  job.kind = wire::JobKind::Pack;
  job.layers = 1;
  job.bytes_max = options_.images.layer_bytes_max;
  job.entries_max = kLayerEntriesMax;
  engine::StoreMount in;
  in.kind = engine::StoreMount::Kind::Layer;
  in.at = std::string(wire::kLayerRoot) + "/in/0";
  in.name = std::move(layer);
  job.mounts.push_back(std::move(in));
  job.file = *std::move(file);
  const auto packed = co_await files_.works.run(std::move(job));
  if (!packed) co_return std::unexpected(packed.error());
  if (::lseek(ours.get(), 0, SEEK_SET) != 0) co_return sys_failure("pack", errno);
  co_return ours;
}

}  // namespace caisson::control
