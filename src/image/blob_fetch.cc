#include "image/blob_fetch.h"

#include <fmt/core.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace caisson::image {

namespace asio = boost::asio;

awaitable<Result<FetchedBlob>> BlobFetch::fetch(BlobRequest request) {
  const Digest digest = request.descriptor.digest;
  const Pin pin = store_.pin(digest);
  for (;;) {
    if (const auto size = store_.size_of(digest)) {
      if (*size == request.descriptor.size) co_return FetchedBlob{UniqueFd(), pin};
      co_return failure(Errc::Protocol, fmt::format("the manifest says that the blob {} has {} "
                                                    "bytes, and it has {}",
                                                    digest.str(), request.descriptor.size, *size));
    }
    const auto found = flights_.find(digest);
    if (found == flights_.end()) co_return co_await lead(std::move(request));
    const std::shared_ptr<asio::steady_timer> landed = found->second;
    boost::system::error_code ignored;
    co_await landed->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) {
      co_return failure(Errc::Gone, "the pull was cancelled");
    }
  }
}

awaitable<Result<FetchedBlob>> BlobFetch::lead(BlobRequest request) {
  const Digest digest = request.descriptor.digest;
  auto landed =
      std::make_shared<asio::steady_timer>(executor_, asio::steady_timer::time_point::max());
  flights_.emplace(digest, landed);
  // However this ends, those who wait look again.
  struct Landing {
    BlobFetch& fetch;
    const Digest& digest;
    asio::steady_timer& timer;
    ~Landing() {
      fetch.flights_.erase(digest);
      timer.cancel();
    }
  };
  const Landing landing{*this, digest, *landed};
  bool resumed = false;
  auto stored = co_await download(request, resumed);
  // Bytes of an earlier attempt may have been the bad ones: they are gone now, and it is tried
  // anew.
  if (!stored && stored.error().code == Errc::Protocol && resumed) {
    stored = co_await download(request, resumed);
  }
  if (!stored) co_return std::unexpected(stored.error());
  co_return FetchedBlob{std::move(stored->fd), std::move(stored->pin)};
}

awaitable<Result<Stored>> BlobFetch::download(BlobRequest request, bool& resumed) {
  const Descriptor& descriptor = request.descriptor;
  auto begun = co_await store_.begin(descriptor.digest, descriptor.size);
  if (!begun) co_return std::unexpected(begun.error());
  Ingest ingest = std::move(*begun);
  resumed = ingest.offset() > 0;
  BlobTarget target;
  target.offset = [&ingest] { return ingest.offset(); };
  target.restart = [&ingest] { return ingest.restart(); };
  target.write = [&ingest, &request](std::span<const std::byte> bytes) -> Result<void> {
    TRY(ingest.write(bytes));
    if (request.on_bytes) request.on_bytes(ingest.offset());
    return {};
  };
  const auto done =
      co_await registry_.blob(request.reference, descriptor, request.credentials, target);
  if (!done) {
    // What a liar sent is not kept; what was cut off is.
    if (done.error().code == Errc::Protocol) ingest.discard();
    co_return std::unexpected(done.error());
  }
  co_return co_await store_.commit(std::move(ingest));
}

}  // namespace caisson::image
