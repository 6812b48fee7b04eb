// doors/sandboxer/fake_history_test.h — a history in memory, whose disk can be slow or full.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <string>
#include <vector>

#include "control/history.h"
#include "doors/sandboxer/signal.h"

namespace caisson::sandboxer::fake {

class History final : public control::History {
 public:
  explicit History(boost::asio::io_context& io) : moved(io.get_executor()) {}

  bool stuck = false;  // nothing is written until it is not
  bool full = false;
  Signal moved;
  std::vector<std::string> order;  // of what was written
  std::map<std::string, control::Listing> kept;
  std::map<std::string, store::RunRecord> all_runs;
  std::vector<store::RunPiece> all_pieces;
  std::vector<store::RunTrim> trims;

  Result<std::vector<control::Listing>> listings() override {
    std::vector<control::Listing> out;
    for (const auto& [id, one] : kept) out.push_back(one);
    return out;
  }
  awaitable<Result<void>> put_listing(control::Listing listing) override {
    co_await disk();
    if (full) co_return failure(Errc::StoreFull, "full");
    kept[listing.id] = std::move(listing);
    co_return Result<void>{};
  }
  awaitable<Result<void>> forget_listing(std::string, std::string id) override {
    kept.erase(id);
    std::erase_if(all_runs, [&id](const auto& one) { return one.second.sandbox == id; });
    co_return Result<void>{};
  }
  awaitable<Result<void>> put_run(store::RunRecord run) override {
    co_return co_await put_pieces(std::move(run), {}, std::nullopt);
  }
  awaitable<Result<void>> put_pieces(std::optional<store::RunRecord> run,
                                     std::vector<store::RunPiece> pieces,
                                     std::optional<store::RunTrim> trim) override {
    co_await disk();
    if (full) co_return failure(Errc::StoreFull, "full");
    if (run) {
      order.push_back("run " + run->id);
      all_runs[run->id] = *std::move(run);
    }
    for (store::RunPiece& piece : pieces) {
      order.push_back("piece " + piece.content.substr(0, 16));
      piece.id = static_cast<std::int64_t>(all_pieces.size()) + 1;
      all_pieces.push_back(std::move(piece));
    }
    if (trim) trims.push_back(*std::move(trim));
    co_return Result<void>{};
  }
  awaitable<Result<std::vector<store::RunRecord>>> runs(store::RunQuery) override {
    co_return std::vector<store::RunRecord>();
  }
  awaitable<Result<std::optional<store::RunRecord>>> run(std::string id) override {
    const auto at = all_runs.find(id);
    co_return at == all_runs.end() ? std::nullopt : std::optional(at->second);
  }
  awaitable<Result<std::vector<store::RunPiece>>> pieces(store::PieceQuery query) override {
    std::vector<store::RunPiece> out;
    std::size_t bytes = 0;
    for (const store::RunPiece& piece : all_pieces) {
      if (piece.run != query.run || piece.id <= query.after || out.size() >= query.limit) continue;
      if (bytes >= query.bytes) break;
      out.push_back(piece);
      bytes += piece.content.size();
    }
    co_return out;
  }

  [[nodiscard]] std::string text() const {
    std::string out;
    for (const store::RunPiece& piece : all_pieces) out += piece.content;
    return out;
  }
  void go_on() {
    stuck = false;
    moved.wake();
  }

 private:
  awaitable<void> disk() {
    while (stuck) {
      if (!co_await moved.wait()) co_return;
    }
  }
};

// Runs until nothing can go on.
template <class Work>
void run(boost::asio::io_context& io, Work work) {
  boost::asio::co_spawn(io, std::move(work), boost::asio::detached);
  io.restart();
  io.run();
}

}  // namespace caisson::sandboxer::fake
