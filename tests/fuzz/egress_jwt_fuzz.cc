// Any bytes as a Proxy-Authorization field, as a token, and as the claims of a token that is signed
// well: what is accepted has a session and an end, and its hosts become rules that the policy's own
// checks accept.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "egress/credentials/jwt.h"
#include "egress/wire/rules.h"

namespace {

using namespace caisson::egress;

const WallTime kNow{std::chrono::seconds(1'900'000'000)};

void require(bool holds) {
  if (!holds) std::abort();
}

void check_token(const Secret& key, std::string_view token) {
  const auto claims = verify_token(key, token, kNow);
  if (!claims) return;
  require(!claims->session_id.empty() && claims->expires >= 1'900'000'000);
  require(claims->allowed_hosts.size() <= kTokenHostsMax);
  const auto rules = rules_of_hosts(claims->allowed_hosts);
  require(rules.size() <= claims->allowed_hosts.size());
  require(Rules::compile(rules).has_value());
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto key = Secret::copy_of("0123456789abcdef0123456789abcdef");
  require(key.has_value());
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_token(*key, text);
  if (const auto token = token_of(text)) check_token(*key, *token);
  // The text as a list of hosts that we sign ourselves: a comma cannot be one, the rest is read
  // back.
  const ProxyClaims claims{"s", std::string(text), {std::string(text)}, 2'000'000'000};
  if (const auto minted = mint_token(*key, claims)) {
    const auto back = verify_token(*key, *minted, kNow);
    // What is no text in UTF-8 may be signed, but is not read.
    if (back) {
      require(back->tenant_id == claims.tenant_id);
      require(back->allowed_hosts.size() <= 1);
      require(Rules::compile(rules_of_hosts(back->allowed_hosts)).has_value());
    }
  }
  return 0;
}
