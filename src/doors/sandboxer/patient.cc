#include "doors/sandboxer/patient.h"

namespace caisson::sandboxer {

namespace asio = boost::asio;

namespace {
std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
}  // namespace

class PatientAnswer::Turn {
 public:
  explicit Turn(PatientAnswer& answer) : answer_(answer) { answer_.writing_ = true; }
  ~Turn() {
    answer_.writing_ = false;
    answer_.last_ = Clock::now();
    answer_.turn_.wake();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  PatientAnswer& answer_;
};

awaitable<Result<void>> PatientAnswer::begin() {
  if (begun_) co_return Result<void>{};
  begun_ = true;
  co_return co_await call_.exchange.begin(200, type_, std::nullopt);
}

awaitable<Result<void>> PatientAnswer::write(std::string text) {
  while (writing_) {
    if (!co_await turn_.wait()) co_return failure(Errc::Gone, "the caller left");
  }
  const Turn turn(*this);
  if (auto good = co_await begin(); !good) co_return good;
  if (text.empty()) co_return Result<void>{};
  co_return co_await call_.exchange.write(bytes_of(text));
}

awaitable<Result<void>> PatientAnswer::finish(std::string text) {
  while (writing_) {
    if (!co_await turn_.wait()) co_return failure(Errc::Gone, "the caller left");
  }
  const Turn turn(*this);
  finished_ = true;
  if (!begun_) {
    begun_ = true;
    co_await call_.exchange.respond(200, type_, std::move(text));
    co_return Result<void>{};
  }
  if (!text.empty()) {
    if (auto sent = co_await call_.exchange.write(bytes_of(text)); !sent) co_return sent;
  }
  co_return co_await call_.exchange.end();
}

awaitable<void> PatientAnswer::keep_alive() {
  for (;;) {
    timer_.expires_at(last_ + patience_);
    boost::system::error_code ec;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    if (ec) co_return;
    if (writing_ || finished_ || Clock::now() < last_ + patience_) {
      // Somebody else is speaking.
      if (Clock::now() >= last_ + patience_) last_ = Clock::now();
      continue;
    }
    const auto sent = co_await write(std::string(filler_));
    if (!sent) co_return;
  }
}

}  // namespace caisson::sandboxer
