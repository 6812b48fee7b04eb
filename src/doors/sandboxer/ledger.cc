#include "doors/sandboxer/ledger.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace caisson::sandboxer {

namespace asio = boost::asio;

awaitable<void> Ledger::put(std::string sandbox, std::optional<store::RunRecord> run,
                            std::vector<store::RunPiece> pieces) {
  Entry entry{std::move(sandbox), std::move(run), std::move(pieces), 256};
  if (entry.run) entry.bytes += entry.run->command.size();
  for (const store::RunPiece& piece : entry.pieces) entry.bytes += piece.content.size() + 64;
  while (bytes_ > kLedgerBytesMax) {
    hurry_ = true;
    pause_.cancel();
    if (!co_await signal_.wait()) co_return;
  }
  bytes_ += entry.bytes;
  ++waiting_[entry.sandbox];
  entries_.push_back(std::move(entry));
  write_soon();
}

void Ledger::put_listing(control::Listing listing) {
  const std::string id = listing.id;
  listings_[id] = std::move(listing);
  write_soon();
}

void Ledger::write_soon() {
  if (writing_) return;
  writing_ = true;
  asio::co_spawn(executor_, write(shared_from_this()), asio::detached);
}

void Ledger::hurry() {
  hurry_ = true;
  pause_.cancel();
}

void Ledger::done(const Result<void>& written) {
  if (!written) ++failures_;
  --under_way_;
  signal_.wake();
}

awaitable<void> Ledger::write_entry(std::shared_ptr<Ledger> self, Entry entry) {
  const auto written = co_await self->history_.put_pieces(std::move(entry.run),
                                                          std::move(entry.pieces), std::nullopt);
  self->bytes_ -= entry.bytes;
  const auto at = self->waiting_.find(entry.sandbox);
  if (--at->second == 0) self->waiting_.erase(at);
  self->done(written);
}

awaitable<void> Ledger::write_listing(std::shared_ptr<Ledger> self, control::Listing listing) {
  self->done(co_await self->history_.put_listing(std::move(listing)));
}

// The store takes what is begun in the order in which it was begun, and commits it together.
awaitable<void> Ledger::write(std::shared_ptr<Ledger> self) {
  Ledger& ledger = *self;
  while (!ledger.entries_.empty() || !ledger.listings_.empty()) {
    if (!ledger.hurry_) {
      ledger.pause_.expires_after(kLedgerDelay);
      boost::system::error_code ec;
      co_await ledger.pause_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    }
    ledger.hurry_ = false;
    auto entries = std::exchange(ledger.entries_, {});
    auto listings = std::exchange(ledger.listings_, {});
    ledger.under_way_ += entries.size() + listings.size();
    for (Entry& entry : entries)
      asio::co_spawn(ledger.executor_, write_entry(self, std::move(entry)), asio::detached);
    for (auto& [id, listing] : listings)
      asio::co_spawn(ledger.executor_, write_listing(self, std::move(listing)), asio::detached);
    while (ledger.under_way_ > 0) {
      if (!co_await ledger.signal_.wait()) co_return;
    }
  }
  ledger.writing_ = false;
}

awaitable<void> Ledger::settle(std::string sandbox) {
  while (waiting_.contains(sandbox)) {
    hurry_ = true;
    pause_.cancel();
    if (!co_await signal_.wait()) co_return;
  }
}

}  // namespace caisson::sandboxer
