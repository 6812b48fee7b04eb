// Pulling images, and beginning a sandbox with one.
#include <fmt/format.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <deque>

#include "control/fleet_impl.h"
#include "control/shield.h"
#include "control/text.h"

namespace caisson::control {
namespace {

constexpr std::size_t kProgressMax = 256;  // of a pull whose reader is slow; older ones are dropped

// A pull under way, and what it has to tell.
struct PullTask {
  explicit PullTask(const boost::asio::any_io_executor& executor) : wakeup(executor) {}
  engine::Wakeup wakeup;
  boost::asio::cancellation_signal stop;
  std::deque<ImageProgress> told;
  std::optional<Result<ImageView>> result;
};

class PullItems final : public PullStream {
 public:
  explicit PullItems(std::shared_ptr<PullTask> task) : task_(std::move(task)) {}
  ~PullItems() override {
    if (!task_->result) task_->stop.emit(boost::asio::cancellation_type::terminal);
  }
  PullItems(const PullItems&) = delete;
  PullItems& operator=(const PullItems&) = delete;

  awaitable<Result<Item>> next() override {
    for (;;) {
      if (!task_->told.empty()) {
        ImageProgress next = std::move(task_->told.front());
        task_->told.pop_front();
        co_return Item(std::move(next));
      }
      if (task_->result) {
        if (!*task_->result) co_return std::unexpected(task_->result->error());
        co_return Item(**task_->result);
      }
      if (co_await task_->wakeup.wait() == engine::Wake::Cancelled)
        co_return failure(Errc::Gone, "the caller left");
    }
  }

 private:
  std::shared_ptr<PullTask> task_;
};

ImageProgress progress_of(const image::Progress& progress) {
  ImageProgress out;
  out.stage = progress.kind == image::ProgressKind::Resolved ? "resolve" : "download";
  if (progress.kind != image::ProgressKind::Resolved) out.layer = progress.digest.str();
  out.done = progress.done;
  out.total = progress.total;
  return out;
}

Result<image::PullRequest> request_of(const PullWish& wish, const ImageOptions& options) {
  image::PullRequest request;
  request.reference = TRY(image::Reference::parse(wish.reference));
  if (wish.platform) request.platform = TRY(image::Platform::parse(*wish.platform));
  request.credentials = options.credentials;
  if (!wish.username.empty() || !wish.password.empty())
    TRY(request.credentials.add(request.reference.registry(),
                                image::Login{wish.username, wish.password, ""}));
  return request;
}

// Layers of a pull, from the moment that they are there until the image is on record.
using Holds = std::vector<LayerWorks::Hold>;

}  // namespace

Result<void> FleetImpl::images_here() const {
  if (files_.blobs && files_.source) return {};
  return failure(Errc::Unsupported, "this server keeps no images; only 'host' is there");
}

awaitable<Result<std::unique_ptr<PullStream>>> FleetImpl::pull_image(const Caller& caller,
                                                                     PullWish wish) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  if (const auto here = images_here(); !here) co_return std::unexpected(here.error());
  if (const auto read = request_of(wish, options_.images); !read)
    co_return std::unexpected(read.error());
  const auto task = std::make_shared<PullTask>(executor_);
  auto tell = [weak = std::weak_ptr(task)](ImageProgress progress) {
    const auto kept = weak.lock();
    if (!kept) return;
    if (kept->told.size() >= kProgressMax) kept->told.pop_front();
    kept->told.push_back(std::move(progress));
    kept->wakeup.wake();
  };
  auto done = [task](const std::exception_ptr& bug, Result<ImageView> result) {
    if (bug) result = failure(Errc::Internal, "an exception left a coroutine of the library");
    task->result = std::move(result);
    task->wakeup.wake();
  };
  boost::asio::co_spawn(executor_, pull_now(caller, std::move(wish), std::move(tell)),
                        boost::asio::bind_cancellation_slot(task->stop.slot(), std::move(done)));
  co_return std::make_unique<PullItems>(task);
}

awaitable<Result<ImageView>> FleetImpl::pull_now(Caller caller, PullWish wish,
                                                 std::function<void(ImageProgress)> tell) {
  // Given up in the middle, it goes on to its end: what it cannot do any more says Gone.
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  Audited audit(*this, row(caller, "image.pull", "", wish.reference));
  const auto refuse = [](const Error& error) -> Result<ImageView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  auto request = request_of(wish, options_.images);
  if (!request) co_return co_await settle(audit, refuse(request.error()));
  const ImageRecord* there = files_.images.find(caller.tenant, request->reference);
  if (there != nullptr && !there->broken && !wish.refresh)
    co_return co_await settle(audit, Result<ImageView>(there->view));
  if (there == nullptr && files_.images.count(caller.tenant) >= kImagesMax)
    co_return co_await settle(
        audit, refuse(Error{Errc::Exhausted, "image: 1000 images are there; remove one first", 0,
                            "image"}));
  if (const auto room = has_room(caller.tenant, 0); !room)
    co_return co_await settle(audit, refuse(room.error().within("image")));
  if (const auto looked = co_await look(); !looked)
    co_return co_await settle(audit, refuse(looked.error()));
  const auto holds = std::make_shared<Holds>();
  request->progress = [tell](const image::Progress& at) {
    if (tell) tell(progress_of(at));
  };
  request->on_layer = [this, holds, tell](image::LayerReady ready) {
    if (auto name = layer_name(ready.layer.digest, ready.layer.diff_id); name)
      holds->push_back(files_.works.hold({*std::move(name)}));
    return unpack(std::move(ready.layer), std::move(ready.fd), tell);
  };
  const auto source = files_.source;  // reload() may put another in its place
  auto pulled = co_await source->pull(*std::move(request));
  if (!pulled) co_return co_await settle(audit, refuse(pulled.error().within("pull")));
  auto record = co_await shelve(caller, *std::move(pulled), "pull", tell);
  if (!record) co_return co_await settle(audit, refuse(record.error()));
  audit.detail["digest"] = record->view.digest;
  events_.add("image.pulled", caller.tenant, "",
              {{"reference", record->view.reference}, {"digest", record->view.digest}});
  co_return co_await settle(audit, Result<ImageView>(std::move(record->view)));
}

awaitable<Result<SandboxBase>> FleetImpl::base_of_image(const Caller& caller, std::string image) {
  const auto reference = image::Reference::parse(image);
  if (!reference) {
    Error wrong = reference.error();
    wrong.field = "base_image";
    co_return std::unexpected(std::move(wrong));
  }
  const ImageRecord* found = files_.images.find(caller.tenant, *reference);
  if (found != nullptr && found->broken && !options_.images.pull_on_create)
    co_return failure(Errc::Gone, fmt::format("base_image: a layer of '{0}' is missing; get it "
                                              "again: caisson image pull {0}",
                                              reference->familiar()));
  if (found == nullptr || found->broken) {
    if (!options_.images.pull_on_create || !images_here())
      co_return std::unexpected(
          Error{Errc::NotFound,
                fmt::format("base_image is '{}': it is not here; get it first: caisson image pull "
                            "{}",
                            cut_text(image, 200), reference->familiar()),
                0, "base_image"});
    PullWish wish;
    wish.reference = image;
    const auto pulled = co_await pull_now(caller, std::move(wish), nullptr);
    if (!pulled) {
      Error wrong = pulled.error().within("base_image");
      wrong.field = "base_image";
      co_return std::unexpected(std::move(wrong));
    }
    found = files_.images.find(caller.tenant, *reference);
    if (found == nullptr) co_return failure(Errc::Gone, "base_image: it was removed meanwhile");
  }
  SandboxBase base;
  base.image = found->view.reference;
  base.stack.layers = found->stack;
  base.stack.host = false;
  base.base_layers = found->stack.size();
  base.defaults = found->view.defaults;
  co_return base;
}

std::vector<ImageView> FleetImpl::images(const Caller& caller) {
  return files_.images.list(caller.tenant);
}

namespace {

Result<const ImageRecord*> find_image(const ImageLibrary& library, const std::string& tenant,
                                      std::string_view text) {
  const auto reference = TRY(image::Reference::parse(text));
  const ImageRecord* found = library.find(tenant, reference);
  if (found != nullptr) return found;
  return failure(Errc::NotFound, fmt::format("image '{}' is not here", cut_text(text, 200)));
}

}  // namespace

Result<ImageView> FleetImpl::image(const Caller& caller, std::string_view reference) {
  return TRY(find_image(files_.images, caller.tenant, reference))->view;
}

// Only the row. Layers and blobs that nobody needs any more go with the garbage.
awaitable<Result<void>> FleetImpl::remove_image(const Caller& caller, std::string reference) {
  const auto found = find_image(files_.images, caller.tenant, reference);
  if (!found) co_return std::unexpected(found.error());
  const store::FileKey key = (*found)->key();
  Audited audit(*this, row(caller, "image.remove", "", key.id));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.forgotten_files.push_back(key);
  auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) co_return std::unexpected(written.error());
  files_.images.remove(key.tenant, key.id);
  events_.add("image.removed", key.tenant, "", {{"reference", key.id}});
  co_return Result<void>();
}

}  // namespace caisson::control
