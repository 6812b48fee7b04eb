// egress/gate/gateway.h — language models, reached from inside at http://127.0.0.1:3128/openai and
// /anthropic. A guest needs no rule for them and has no key: the provider's address and key are the
// operator's, and every call is paid from the sandbox's budget, which lies within its tenant's.
//
// What cannot be counted is not let through. A call is reserved before it leaves, counted while its
// answer streams, and settled by the provider's own numbers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "egress/budget/budget.h"
#include "egress/budget/prices.h"
#include "egress/budget/usage_reader.h"
#include "egress/wire/host_name.h"
#include "egress/wire/ip_address.h"
#include "policy/settings/egress_settings.h"

namespace caisson::egress {

// Bodies of calls under way, of one sandbox together: they are read whole before they leave.
inline constexpr std::size_t kGatewayBytesMax = std::size_t{40} << 20U;

struct GatewayProvider {
  Provider provider = Provider::OpenAi;
  std::string host;                  // as it is written in the Host field, with its port
  std::optional<HostName> name;      // with TLS: whom the certificate must name
  std::optional<IpAddress> address;  // where the operator wrote an address: no look-up
  std::uint16_t port = 443;
  bool tls = true;
  std::string path_prefix;
  std::string key_secret;
};
[[nodiscard]] Result<GatewayProvider> gateway_provider(Provider provider,
                                                       const policy::GatewaySettings& settings);

// One call, for the record. Neither a question nor an answer is in it.
struct LlmCall {
  Provider provider = Provider::OpenAi;
  std::string path;
  std::string model;
  unsigned status = 0;  // that the guest got
  TokenUsage usage;
  Amount amount;                   // what was charged
  std::optional<Reading> reading;  // none: nothing was charged
  std::string refusal;             // why it did not leave, or stopped
  nanoseconds lasted{};
};

struct Gateway {
  std::vector<GatewayProvider> providers;
  PriceTable prices;
  std::shared_ptr<Budget> budget;
  std::function<void(const LlmCall&)> called;
  // A limit was reached: whoever ends sandboxes may want to.
  std::function<void(const BudgetRefusal&)> exceeded;
  std::size_t bytes_held = 0;

  // The provider whose address this target is, and what is behind it: "/v1/messages".
  struct Found {
    const GatewayProvider* provider = nullptr;
    std::string path;
  };
  [[nodiscard]] std::optional<Found> find(std::string_view target) const;
};

}  // namespace caisson::egress
