// How a pull runs: the manifest first, then its config, then up to kParallelLayersMax workers, each
// of which takes the next layer. The pull's own coroutine waits for all of them, whatever happens:
// an error or a cancellation is told to the workers, and the pull ends when the last one has.
#include "image/puller.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <optional>

#include "image/blob_fetch.h"

namespace caisson::image {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kCancelled = "the pull was cancelled";

awaitable<bool> was_cancelled() {
  const auto state = co_await asio::this_coro::cancellation_state;
  co_return state.cancelled() != asio::cancellation_type::none;
}

// One pull's layers, shared by its workers.
struct LayerWork {
  LayerWork(std::shared_ptr<void> of, const asio::any_io_executor& executor,
            const PullRequest& from, PulledImage& into)
      : owner(std::move(of)),
        request(from),
        image(into),
        ended(executor, asio::steady_timer::time_point::max()) {}

  std::shared_ptr<void> owner;  // the puller's core: frames may be destroyed in any order

  const PullRequest& request;  // both live in the pull's frame, which waits for us
  PulledImage& image;
  std::size_t next = 0;
  std::size_t running = 0;
  std::optional<Error> error;  // the first one
  std::array<asio::cancellation_signal, kParallelLayersMax> signals;
  asio::steady_timer ended;  // cancelled whenever a worker has ended

  void tell(const Progress& progress) const {
    if (request.progress) request.progress(progress);
  }
  void stop() {
    for (auto& signal : signals) signal.emit(asio::cancellation_type::terminal);
  }
};

Progress progress_of(const PulledImage& image, std::size_t index, ProgressKind kind,
                     std::uint64_t done) {
  const Layer& layer = image.layers[index];
  return {kind, index, image.layers.size(), layer.digest, done, layer.size};
}

// At most one event of bytes every kProgressInterval.
std::function<void(std::uint64_t)> paced(LayerWork& work, std::size_t index) {
  return [&work, index, last = TimePoint()](std::uint64_t done) mutable {
    const TimePoint now = Clock::now();
    if (now - last < kProgressInterval) return;
    last = now;
    work.tell(progress_of(work.image, index, ProgressKind::Bytes, done));
  };
}

awaitable<Result<void>> take_layer(BlobFetch& fetch, LayerWork& work, std::size_t index) {
  const Layer layer = work.image.layers[index];
  BlobRequest wanted{work.request.reference,
                     {layer.media_type, layer.digest, layer.size},
                     work.request.credentials,
                     paced(work, index)};
  auto blob = co_await fetch.fetch(std::move(wanted));
  if (!blob) co_return std::unexpected(blob.error());
  work.image.pins.push_back(std::move(blob->pin));
  const ProgressKind kind = blob->fd ? ProgressKind::Done : ProgressKind::Cached;
  work.tell(progress_of(work.image, index, kind, layer.size));
  if (!work.request.on_layer) co_return Result<void>();
  LayerReady ready{index, work.image.layers.size(), layer, std::move(blob->fd)};
  co_return co_await work.request.on_layer(std::move(ready));
}

awaitable<void> take_layers(BlobFetch& fetch, std::shared_ptr<LayerWork> work) {
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!work->error && work->next < work->image.layers.size()) {
    const std::size_t index = work->next++;
    Result<void> done;
    if (co_await was_cancelled()) {
      done = failure(Errc::Gone, std::string(kCancelled));
    } else {
      done = co_await take_layer(fetch, *work, index);
    }
    if (!done && !work->error) {
      work->error =
          done.error().within(fmt::format("layer {} of {}", index + 1, work->image.layers.size()));
      work->stop();
    }
  }
}

}  // namespace

struct Puller::Core {
  Core(asio::any_io_executor on, BlobStore& into, RegistryOptions options)
      : executor(on), store(into), registry(on, std::move(options)), fetch(on, into, registry) {}

  asio::any_io_executor executor;
  BlobStore& store;
  Registry registry;
  BlobFetch fetch;

  struct Found {
    Digest resolved;
    FetchedManifest fetched;
    Manifest manifest;
  };
  awaitable<Result<Found>> find(const PullRequest& request);
  awaitable<Result<Found>> below(const PullRequest& request, FetchedManifest index_text,
                                 Index index);
  awaitable<Result<PulledImage>> describe(const PullRequest& request);
  static awaitable<Result<void>> layers(std::shared_ptr<Core> core, const PullRequest& request,
                                        PulledImage& image);
};

awaitable<Result<Puller::Core::Found>> Puller::Core::below(const PullRequest& request,
                                                           FetchedManifest index_text,
                                                           Index index) {
  const auto entry = choose(index, request.platform);
  if (!entry) co_return std::unexpected(entry.error());
  const Descriptor& want = entry->descriptor;
  auto fetched = co_await registry.manifest(request.reference, want.digest, request.credentials);
  if (!fetched) co_return std::unexpected(fetched.error());
  if (fetched->text.size() != want.size) {
    co_return failure(Errc::Protocol,
                      fmt::format("the index says that the manifest {} has {} "
                                  "bytes, and it has {}",
                                  want.digest.str(), want.size, fetched->text.size()));
  }
  auto document = parse_document(fetched->text, fetched->media_type);
  if (!document) co_return std::unexpected(document.error());
  Manifest* manifest = std::get_if<Manifest>(&*document);
  if (manifest == nullptr) {
    co_return failure(Errc::Unsupported, "the index leads to another index");
  }
  if (manifest->media_type != want.media_type) {
    co_return failure(Errc::Protocol,
                      fmt::format("the index says that the manifest is '{}', and it is '{}'",
                                  want.media_type, manifest->media_type));
  }
  co_return Found{std::move(index_text.digest), std::move(*fetched), std::move(*manifest)};
}

awaitable<Result<Puller::Core::Found>> Puller::Core::find(const PullRequest& request) {
  auto fetched = co_await registry.manifest(request.reference, request.credentials);
  if (!fetched) co_return std::unexpected(fetched.error());
  auto document = parse_document(fetched->text, fetched->media_type);
  if (!document) co_return std::unexpected(document.error());
  if (Index* index = std::get_if<Index>(&*document)) {
    co_return co_await below(request, std::move(*fetched), std::move(*index));
  }
  Digest resolved = fetched->digest;
  co_return Found{std::move(resolved), std::move(*fetched),
                  std::get<Manifest>(std::move(*document))};
}

// Manifest and config: they are verified and in the store, and so is what they say.
awaitable<Result<PulledImage>> Puller::Core::describe(const PullRequest& request) {
  auto found = co_await find(request);
  if (!found) co_return std::unexpected(found.error());
  const Algorithm algorithm = found->fetched.digest.algorithm();
  auto kept = co_await store.put(found->fetched.text, algorithm);
  if (!kept) co_return std::unexpected(kept.error());
  const Descriptor config = found->manifest.config;
  BlobRequest wanted{request.reference, config, request.credentials, {}};
  auto blob = co_await fetch.fetch(std::move(wanted));
  if (!blob) co_return std::unexpected(blob.error().within("config"));
  auto text = co_await store.read_verified(config.digest, kConfigBytesMax);
  if (!text) co_return std::unexpected(text.error());
  const ImageParts parts{request.reference,          found->fetched.digest,
                         found->fetched.text.size(), std::move(found->manifest),
                         std::move(*text),           request.platform};
  auto image = assemble(parts);
  if (!image) co_return image;
  image->resolved = std::move(found->resolved);
  image->pins.push_back(std::move(kept->pin));
  image->pins.push_back(std::move(blob->pin));
  co_return image;
}

awaitable<Result<void>> Puller::Core::layers(std::shared_ptr<Core> core, const PullRequest& request,
                                             PulledImage& image) {
  auto work = std::make_shared<LayerWork>(core, core->executor, request, image);
  const std::size_t workers = std::min(kParallelLayersMax, image.layers.size());
  for (std::size_t i = 0; i < workers; ++i) {
    ++work->running;
    auto ended = [work](const std::exception_ptr& thrown) {
      if (thrown && !work->error) {
        work->error = Error{Errc::Internal, "a layer's worker ended by an exception"};
        work->stop();
      }
      --work->running;
      work->ended.cancel();
    };
    asio::co_spawn(core->executor, take_layers(core->fetch, work),
                   asio::bind_cancellation_slot(work->signals[i].slot(), std::move(ended)));
  }
  bool told = false;
  while (work->running > 0) {
    boost::system::error_code ignored;
    co_await work->ended.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (!told && co_await was_cancelled()) {
      told = true;
      if (!work->error) work->error = Error{Errc::Gone, std::string(kCancelled)};
      work->stop();
    }
  }
  if (work->error) co_return std::unexpected(*work->error);
  co_return Result<void>();
}

Puller::Puller(asio::any_io_executor executor, BlobStore& store, RegistryOptions options)
    : core_(std::make_shared<Core>(std::move(executor), store, std::move(options))) {}
Puller::~Puller() = default;

awaitable<Result<PulledImage>> Puller::pull(PullRequest request) {
  const auto core = core_;
  co_await asio::this_coro::throw_if_cancelled(false);
  const std::string name = request.reference.str();
  auto image = co_await core->describe(request);
  if (!image) co_return std::unexpected(image.error().within(name));
  if (request.progress) {
    request.progress({ProgressKind::Resolved, 0, image->layers.size(), image->manifest_digest, 0,
                      image->layer_bytes()});
  }
  const auto done = co_await Core::layers(core, request, *image);
  if (!done) co_return std::unexpected(done.error().within(name));
  co_return image;
}

}  // namespace caisson::image
