#include "control/history.h"

#include <fmt/format.h>

#include <boost/asio/thread_pool.hpp>
#include <utility>

#include "control/await_store.h"

namespace caisson::control {
namespace {

using store::PieceQuery;
using store::RunPiece;
using store::RunQuery;
using store::RunRecord;

class StoredHistory final : public History {
 public:
  explicit StoredHistory(store::Store& store) : store_(store) {}
  // A question that runs refers to the store and to its coroutine's frame; none is left behind.
  ~StoredHistory() override { pool_.join(); }

  Result<std::vector<Listing>> listings() override;
  awaitable<Result<void>> put_listing(Listing listing) override;
  awaitable<Result<void>> forget_listing(std::string tenant, std::string id) override;
  awaitable<Result<void>> put_run(RunRecord run) override;
  awaitable<Result<void>> put_pieces(std::optional<RunRecord> run, std::vector<RunPiece> pieces,
                                     std::optional<store::RunTrim> trim) override;
  awaitable<Result<std::vector<RunRecord>>> runs(RunQuery query) override;
  awaitable<Result<std::optional<RunRecord>>> run(std::string id) override;
  awaitable<Result<std::vector<RunPiece>>> pieces(PieceQuery query) override;

 private:
  // One of the places of those who wait.
  class Place {
   public:
    explicit Place(std::shared_ptr<std::size_t> taken) : taken_(std::move(taken)) { ++*taken_; }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { --*taken_; }

   private:
    std::shared_ptr<std::size_t> taken_;
  };

  template <class Work>
  awaitable<std::invoke_result_t<Work&>> ask(Work work) {
    if (*waiting_ >= kHistoryReadersMax) {
      co_return failure(Errc::Exhausted,
                        fmt::format("{} questions about what was run wait already: try again later",
                                    kHistoryReadersMax));
    }
    const Place place(waiting_);
    co_return co_await on_worker(pool_, std::move(work));
  }

  store::Store& store_;
  // Shared: a coroutine that nobody resumes any more goes with its context, after us.
  std::shared_ptr<std::size_t> waiting_ = std::make_shared<std::size_t>(0);
  boost::asio::thread_pool pool_{1};
};

Result<std::vector<Listing>> StoredHistory::listings() {
  auto records = TRY(store_.files(store::FileKind::Listing));
  std::vector<Listing> out;
  out.reserve(records.size());
  for (store::FileRecord& record : records) {
    out.push_back({.tenant = std::move(record.key.tenant),
                   .id = std::move(record.key.id),
                   .created = record.created,
                   .spec = std::move(record.spec)});
  }
  return out;
}

awaitable<Result<void>> StoredHistory::put_listing(Listing listing) {
  store::Store::Batch batch;
  batch.files.push_back(
      {{store::FileKind::Listing, std::move(listing.tenant), std::move(listing.id)},
       listing.created,
       std::move(listing.spec)});
  co_return co_await commit(store_, std::move(batch));
}

awaitable<Result<void>> StoredHistory::forget_listing(std::string tenant, std::string id) {
  store::Store::Batch batch;
  batch.forgotten_runs.push_back(id);
  batch.forgotten_files.push_back({store::FileKind::Listing, std::move(tenant), std::move(id)});
  co_return co_await commit(store_, std::move(batch));
}

awaitable<Result<void>> StoredHistory::put_run(RunRecord run) {
  store::Store::Batch batch;
  batch.runs.push_back(std::move(run));
  co_return co_await commit(store_, std::move(batch));
}

awaitable<Result<void>> StoredHistory::put_pieces(std::optional<RunRecord> run,
                                                  std::vector<RunPiece> pieces,
                                                  std::optional<store::RunTrim> trim) {
  store::Store::Batch batch;
  if (run) batch.runs.push_back(std::move(*run));
  batch.pieces = std::move(pieces);
  if (trim) batch.trims.push_back(std::move(*trim));
  co_return co_await commit(store_, std::move(batch));
}

awaitable<Result<std::vector<RunRecord>>> StoredHistory::runs(RunQuery query) {
  auto work = [this, query = std::move(query)] { return store_.runs(query); };
  co_return co_await ask(std::move(work));
}

awaitable<Result<std::optional<RunRecord>>> StoredHistory::run(std::string id) {
  auto work = [this, id = std::move(id)] { return store_.run(id); };
  co_return co_await ask(std::move(work));
}

awaitable<Result<std::vector<RunPiece>>> StoredHistory::pieces(PieceQuery query) {
  auto work = [this, query = std::move(query)] { return store_.pieces(query); };
  co_return co_await ask(std::move(work));
}

}  // namespace

// Coroutines bring their own executor: ours is theirs.
// NOLINTNEXTLINE(performance-unnecessary-value-param): as its callers know it
std::unique_ptr<History> History::make(boost::asio::any_io_executor /*executor*/,
                                       store::Store& store) {
  return std::make_unique<StoredHistory>(store);
}

}  // namespace caisson::control
