// egress/budget/request_reader.h — what must be known of a call before it leaves: which model, how
// much it may answer, whether it streams. A guest wrote these bytes, and a provider will read them
// again: what the two of us could read differently, such as a key given twice, is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "egress/budget/token_usage.h"

namespace caisson::egress {

inline constexpr std::size_t kRequestBytesMax = std::size_t{32} << 20U;
inline constexpr std::int64_t kChoicesMax = 128;

enum class ModelEndpoint : std::uint8_t {
  OpenAiChat,
  OpenAiCompletions,
  OpenAiResponses,
  OpenAiEmbeddings,
  AnthropicMessages,
  Free,       // costs nothing: lists of models, counting tokens
  Uncounted,  // everything else: nobody would tell what it cost, so it is not let through
};

// `path` is what the guest asks for below the gateway's address; a "/v1" in front may be there or
// not, a query is ignored.
[[nodiscard]] ModelEndpoint endpoint_of(Provider provider, std::string_view method,
                                        std::string_view path) noexcept;

struct RequestFacts {
  std::string model;
  // All answers together; nothing when the request sets no limit.
  std::optional<std::int64_t> output_tokens_max;
  std::int64_t choices = 1;  // how many answers it asks for
  bool answers_text = true;  // an embedding has no output
  bool streams = false;
  // A stream of chat that would not tell its usage: see with_usage_asked().
  bool usage_not_asked = false;
  std::int64_t input_tokens = 0;  // an estimate, by the bytes

  friend bool operator==(const RequestFacts&, const RequestFacts&) = default;
};

// For endpoints that are counted. InvalidArgument, with the field's name, for what is no request or
// could be read in two ways.
[[nodiscard]] Result<RequestFacts> read_request(ModelEndpoint endpoint, std::string_view body);

// The same request with stream_options.include_usage, for a body that read_request() took.
[[nodiscard]] Result<std::string> with_usage_asked(std::string_view body);

}  // namespace caisson::egress
