// egress/budget/usage_reader.h — the tokens that a provider says a call used, read from its answer
// as it passes: one JSON body, or a stream of events, in pieces of any size. Known are OpenAI's
// chat, completions, responses and embeddings, and Anthropic's messages. Whoever feeds it asked for
// an answer without compression.
//
// An answer that says nothing is never free: when it was cut, or cannot be read, an estimate by its
// bytes is charged instead, and the report says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "egress/budget/token_usage.h"

namespace caisson::egress {

enum class Framing : std::uint8_t { Json, EventStream };
// By the answer's Content-Type; whatever is not an event stream is taken for JSON.
[[nodiscard]] Framing framing_of(std::string_view content_type) noexcept;

enum class Reading : std::uint8_t {
  Exact,       // the provider's own numbers, and the answer ended as it should
  Incomplete,  // a stream that was cut, or that never says: its text was counted
  Unreadable,  // not what this provider answers: its bytes were counted
};
[[nodiscard]] std::string_view to_string(Reading reading) noexcept;

struct UsageReport {
  Reading reading = Reading::Unreadable;
  TokenUsage usage;  // what is to be charged, in all three cases

  friend bool operator==(const UsageReport&, const UsageReport&) = default;
};

class UsageReader {
 public:
  UsageReader(Provider provider, Framing framing);
  UsageReader(UsageReader&&) noexcept;
  UsageReader& operator=(UsageReader&&) noexcept;
  ~UsageReader();

  void feed(std::string_view piece);

  // Tokens of output so far, while the stream runs: the provider's number where it tells one, else
  // one for each event with text or one for each four bytes of text, whichever is more.
  [[nodiscard]] std::int64_t output_tokens_seen() const noexcept;

  // After the last byte, or when no more will come. `input_tokens` stands for what the answer does
  // not say about the request.
  [[nodiscard]] UsageReport finish(std::int64_t input_tokens);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace caisson::egress
