// doors/daiv/output_store.h — what commands wrote, until the answer is sent: in memory while it is
// little, then in a spool. Nothing of it is lost, and none of it grows the server.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "control/fleet.h"

namespace caisson::daiv {

using boost::asio::awaitable;

inline constexpr std::size_t kOutputHeldMax = 256UL * 1024;  // of all commands of a request
inline constexpr std::size_t kOutputPieceBytes = 32UL * 1024;

class OutputStore {
 public:
  // Both outlive it.
  OutputStore(control::Fleet& fleet, const control::Caller& caller)
      : fleet_(fleet), caller_(caller) {}

  awaitable<Result<void>> append(std::string_view bytes);
  [[nodiscard]] std::uint64_t size() const noexcept { return spooled() + held_.size(); }
  [[nodiscard]] bool large() const noexcept { return spool_ != nullptr; }
  // At most a piece from `at` on, and not beyond `end`.
  awaitable<Result<std::string>> read(std::uint64_t at, std::uint64_t end);

 private:
  [[nodiscard]] std::uint64_t spooled() const noexcept { return spool_ ? spool_->size() : 0; }
  control::Fleet& fleet_;
  const control::Caller& caller_;
  std::shared_ptr<control::Spool> spool_;
  std::string held_;  // what comes after the spool's bytes
};

}  // namespace caisson::daiv
