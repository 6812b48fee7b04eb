// doors/rest/answer_writer.h — an answer of JSON whose length nobody knows beforehand.
//
// A small one is sent whole, with its length. A large one goes out in pieces as it is made, so no
// more than a piece of it is ever in memory, and others have their turn between two of them.
#pragma once

#include <string>

#include "doors/rest/call.h"

namespace caisson::rest {

inline constexpr std::size_t kAnswerPieceBytes = 32UL * 1024;

class AnswerWriter {
 public:
  AnswerWriter(Call& call, unsigned status) : call_(call), status_(status) {}

  // What was written and not sent: append to it, and send() when it is full.
  [[nodiscard]] std::string& text() noexcept { return text_; }
  [[nodiscard]] bool full() const noexcept { return text_.size() >= kAnswerPieceBytes; }
  awaitable<Result<void>> send();
  // With a line's end.
  awaitable<Result<void>> finish();

 private:
  Call& call_;
  unsigned status_;
  std::string text_;
  bool begun_ = false;
};

}  // namespace caisson::rest
