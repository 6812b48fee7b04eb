#include "doors/rest/answer_writer.h"

namespace caisson::rest {

namespace {
constexpr std::string_view kJson = "application/json";
}

awaitable<Result<void>> AnswerWriter::send() {
  if (!begun_) {
    begun_ = true;
    auto begun = co_await call_.exchange.begin(status_, kJson, std::nullopt);
    if (!begun) co_return begun;
  }
  auto sent = co_await call_.exchange.write(std::as_bytes(std::span(text_)));
  text_.clear();
  co_return sent;
}

awaitable<Result<void>> AnswerWriter::finish() {
  text_ += '\n';
  if (!begun_) {
    if (call_.turn != nullptr) call_.turn->keep(status_, text_);
    co_await call_.exchange.respond(status_, kJson, std::move(text_));
    co_return Result<void>{};
  }
  if (auto sent = co_await send(); !sent) co_return sent;
  co_return co_await call_.exchange.end();
}

}  // namespace caisson::rest
