// control/history.h — what outlives a sandbox, for clients who look back: how it stood in a list,
// what was run in it, and what that said. Every call says whose it is by the sandbox's id alone;
// the door that keeps a listing knows whether the caller may see it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/store.h"

namespace caisson::control {

using boost::asio::awaitable;

inline constexpr std::size_t kHistoryReadersMax = 64;  // questions that wait at once

struct Listing {
  std::string tenant;
  std::string id;
  store::WallTime created = 0;
  std::string spec;  // JSON of the door's
};

// Lives on the I/O thread, and not longer than the store.
class History {
 public:
  virtual ~History() = default;
  [[nodiscard]] static std::unique_ptr<History> make(boost::asio::any_io_executor executor,
                                                     store::Store& store);

  // Of every tenant, the oldest first. Waits for the disk: for the start only.
  [[nodiscard]] virtual Result<std::vector<Listing>> listings() = 0;

  // Durable when they return.
  virtual awaitable<Result<void>> put_listing(Listing listing) = 0;
  // And what was run in it.
  virtual awaitable<Result<void>> forget_listing(std::string tenant, std::string id) = 0;
  virtual awaitable<Result<void>> put_run(store::RunRecord run) = 0;
  // A run and its pieces in one step.
  virtual awaitable<Result<void>> put_pieces(std::optional<store::RunRecord> run,
                                             std::vector<store::RunPiece> pieces,
                                             std::optional<store::RunTrim> trim) = 0;

  virtual awaitable<Result<std::vector<store::RunRecord>>> runs(store::RunQuery query) = 0;
  virtual awaitable<Result<std::optional<store::RunRecord>>> run(std::string id) = 0;
  virtual awaitable<Result<std::vector<store::RunPiece>>> pieces(store::PieceQuery query) = 0;
};

}  // namespace caisson::control
