// Any bytes as a provider's answer and as a guest's request: in one piece and in many an answer
// gives the same report, which is never negative and, where it could not be read, never free; a
// request that was read can be made to ask for its usage, and then does. The first byte says which
// provider and framing, the second how many pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "egress/budget/prices.h"
#include "egress/budget/request_reader.h"
#include "egress/budget/usage_reader.h"

namespace {

using namespace caisson::egress;

void require(bool holds) {
  if (!holds) std::abort();
}

UsageReport read(Provider provider, Framing framing, std::string_view text, std::size_t step) {
  UsageReader reader(provider, framing);
  std::int64_t seen = 0;
  for (std::size_t at = 0; at < text.size(); at += step) {
    reader.feed(text.substr(at, step));
    require(reader.output_tokens_seen() >= seen);
    seen = reader.output_tokens_seen();
  }
  const UsageReport report = reader.finish(1);
  if (report.reading != Reading::Exact) require(report.usage.output >= seen);
  return report;
}

void check_answer(Provider provider, Framing framing, std::string_view text, std::size_t step) {
  const UsageReport whole = read(provider, framing, text, std::max<std::size_t>(text.size(), 1));
  require(whole == read(provider, framing, text, step));
  const TokenUsage& usage = whole.usage;
  require(usage.input >= 0 && usage.cached_input >= 0 && usage.cache_write >= 0);
  require(usage.output >= 0 && usage.total() >= usage.output);
  if (whole.reading == Reading::Unreadable) require(usage.output >= tokens_of_bytes(text.size()));
}

void check_request(ModelEndpoint endpoint, std::string_view body) {
  const auto facts = read_request(endpoint, body);
  if (!facts) return;
  require(!facts->model.empty() && facts->input_tokens >= 0 && facts->choices >= 1);
  require(amount_before(*facts, std::nullopt).tokens >= facts->input_tokens);
  if (!facts->usage_not_asked) return;
  const auto changed = with_usage_asked(body);
  require(changed.has_value());
  const auto again = read_request(endpoint, *changed);
  require(again && !again->usage_not_asked && again->streams && again->model == facts->model);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto provider = (data[0] & 1U) == 0 ? Provider::OpenAi : Provider::Anthropic;
  const auto framing = (data[0] & 2U) == 0 ? Framing::Json : Framing::EventStream;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  check_answer(provider, framing, text, std::size_t{1} + data[1]);
  for (const ModelEndpoint endpoint : {ModelEndpoint::OpenAiChat, ModelEndpoint::OpenAiCompletions})
    check_request(endpoint, text);
  (void)endpoint_of(provider, "GET", text);
  return 0;
}
