#include "doors/daiv/output_store.h"

#include <algorithm>

namespace caisson::daiv {

awaitable<Result<void>> OutputStore::append(std::string_view bytes) {
  const std::size_t most = spool_ ? kOutputPieceBytes : kOutputHeldMax;
  if (held_.size() + bytes.size() <= most) {
    held_ += bytes;
    co_return Result<void>{};
  }
  if (!spool_) {
    auto spool = fleet_.spool(caller_);
    if (!spool) co_return std::unexpected(spool.error());
    spool_ = *std::move(spool);
  }
  auto written = co_await spool_->write(std::as_bytes(std::span(held_)));
  if (!written) co_return written;
  held_.clear();
  co_return co_await spool_->write(std::as_bytes(std::span(bytes)));
}

awaitable<Result<std::string>> OutputStore::read(std::uint64_t at, std::uint64_t end) {
  const std::uint64_t want = std::min<std::uint64_t>(end - at, kOutputPieceBytes);
  if (at >= spooled()) co_return held_.substr(at - spooled(), want);
  std::string out(std::min(want, spooled() - at), '\0');
  auto got = co_await spool_->read(at, std::as_writable_bytes(std::span(out)));
  if (!got) co_return std::unexpected(got.error());
  if (*got == 0) co_return failure(Errc::Internal, "a spool is shorter than what was written");
  out.resize(*got);
  co_return out;
}

}  // namespace caisson::daiv
