#include "store/store.h"

#include <future>
#include <mutex>
#include <utility>

#include "store/anchor.h"
#include "store/ledger.h"
#include "store/reader.h"
#include "store/writer.h"

namespace caisson::store {
namespace {

constexpr std::size_t kIdleReadersMax = 4;

class SqliteStore final : public Store {
 public:
  SqliteStore(StoreOptions options, HeldKey key, std::unique_ptr<Ledger> ledger,
              std::optional<AnchorWriter> anchor)
      : options_(std::move(options)),
        key_(std::move(key)),
        writer_(std::move(ledger), std::move(anchor), options_.anchor_every) {}

  void write(Batch batch, Done done) override { writer_.write(std::move(batch), std::move(done)); }

  Result<std::vector<AuditRow>> audit(const AuditQuery& query) override {
    return look([&query](Reader& reader) { return reader.audit(query); });
  }
  Result<Verdict> verify() override {
    AnchorFile anchors;
    const bool anchored = !options_.anchor_path.empty();
    if (anchored) anchors = TRY(read_anchors(options_.anchor_path, key_.key));
    return look([&](Reader& reader) { return reader.verify(anchored ? &anchors : nullptr); });
  }
  Result<std::vector<TokenRecord>> tokens() override {
    return look([](Reader& reader) { return reader.tokens(); });
  }
  Result<std::vector<SandboxRecord>> living() override {
    return look([](Reader& reader) { return reader.living(); });
  }
  Result<std::vector<FileRecord>> files(FileKind kind) override {
    return look([kind](Reader& reader) { return reader.files(kind); });
  }
  Result<std::vector<RunRecord>> runs(const RunQuery& query) override {
    return look([&query](Reader& reader) { return reader.runs(query); });
  }
  Result<std::optional<RunRecord>> run(std::string_view id) override {
    return look([id](Reader& reader) { return reader.run(id); });
  }
  Result<std::vector<RunPiece>> pieces(const PieceQuery& query) override {
    return look([&query](Reader& reader) { return reader.pieces(query); });
  }
  Result<std::optional<SandboxRecord>> sandbox(std::string_view id) override {
    return look([id](Reader& reader) { return reader.sandbox(id); });
  }
  // The queue keeps its order, so an empty batch comes back when all before it are durable.
  Result<void> flush() override {
    std::promise<Result<void>> promise;
    auto answer = promise.get_future();
    writer_.write({}, [&promise](Result<void> result) { promise.set_value(std::move(result)); });
    return answer.get();
  }
  [[nodiscard]] Counters counters() const override { return writer_.counters(); }

 private:
  // Each look has a connection of its own, so that a long verify() holds up nobody.
  template <class Question>
  std::invoke_result_t<Question, Reader&> look(const Question& question) {
    std::optional<Reader> reader = take_idle();
    if (!reader) reader = TRY(Reader::open(options_.path));
    auto answer = question(*reader);
    const std::scoped_lock lock(mutex_);
    if (idle_.size() < kIdleReadersMax) idle_.push_back(std::move(*reader));
    return answer;
  }
  std::optional<Reader> take_idle() {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return std::nullopt;
    std::optional<Reader> reader(std::move(idle_.back()));
    idle_.pop_back();
    return reader;
  }

  // Built downward, destroyed upward: readers close, the writer ends, then the lock is given back.
  StoreOptions options_;
  HeldKey key_;
  Writer writer_;
  std::mutex mutex_;  // guards idle_
  std::vector<Reader> idle_;
};

}  // namespace

Result<std::unique_ptr<Store>> Store::open(StoreOptions options) {
  if (options.path.empty()) return bad_field("path", "the path of the database is empty");
  HeldKey key = TRY(hold_anchor_key(options.path, options.anchor_path));
  std::unique_ptr<Ledger> ledger = TRY(Ledger::open(options));
  std::optional<AnchorWriter> anchor;
  if (!options.anchor_path.empty()) anchor = TRY(AnchorWriter::open(options.anchor_path, key.key));
  return std::make_unique<SqliteStore>(std::move(options), std::move(key), std::move(ledger),
                                       std::move(anchor));
}

}  // namespace caisson::store
