// Whatever is asked and whatever the resolver says: what is allowed has a confirmed caller, a rule
// that names its host, and only addresses that are public or granted by that rule.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "egress/wire/decision.h"
#include "policy/egress.h"

namespace {

using namespace caisson::egress;

void require(bool holds) {
  if (!holds) std::abort();
}

Rules some_rules() {
  caisson::policy::NetworkEgressRule inner;
  inner.domain = "db.example";
  inner.granted_addresses = {"10.0.0.5"};
  caisson::policy::NetworkEgressRule api;
  api.domain = "*.api.example";
  api.ports = {80, 443};
  api.methods = {"GET"};
  api.path_prefixes = {"/v1"};
  caisson::policy::NetworkEgressRule open;
  open.domain = "a.example";
  return *Rules::compile({inner, api, open});
}

FirstBytes first_bytes(std::uint8_t kind, std::string_view text) {
  switch (kind % 5) {
    case 0:
      return NothingSeen{};
    case 1: {
      TlsSeen tls;
      if (auto host = HostName::parse(text)) tls.hello.server_name = *host;
      tls.hello.encrypted_hello = (kind & 0x80) != 0;
      return tls;
    }
    case 2:
      return TlsRefused{};
    case 3: {
      HttpSeen http{(kind & 0x40) != 0 ? "GET" : "POST", std::string(text), {}};
      if ((kind & 0x80) != 0) http.host_field = TargetRefusal{};
      return http;
    }
    default:
      return OtherSeen{};
  }
}

void check_allowed(const Request& request, const Rules& rules, const Verdict& verdict) {
  require(request.identity == Identity::Confirmed && verdict.rule_index.has_value());
  const auto& host = std::get<HostName>(request.host);
  const Rules::Rule& rule = rules.all()[*verdict.rule_index];
  require(caisson::policy::matches_name(rule.wanted, host.text()));
  require(caisson::policy::matches_port(rule.wanted, request.port));
  require(!verdict.addresses.empty());
  for (const IpAddress& address : verdict.addresses) {
    const bool granted = std::ranges::find(rule.granted, address) != rule.granted.end();
    require(granted || classify(address).is_public());
  }
  if (const auto* tls = std::get_if<TlsSeen>(&request.first)) {
    require(tls->hello.server_name == host && !tls->hello.encrypted_hello);
  }
  require(!std::holds_alternative<TlsRefused>(request.first));
  require(!std::holds_alternative<NothingSeen>(request.first));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // identity and sight, port, first bytes' kind, addresses' count, addresses, "host\ntext"
  constexpr std::size_t kHead = 5;
  if (size < kHead) return 0;
  const Rules rules = some_rules();
  ByteReader reader(Bytes(data, size), kHead);
  Request request;
  request.identity = static_cast<Identity>(data[0] % 3);
  request.sight = (data[0] & 0x80) != 0 ? Sight::Readable : Sight::Opaque;
  request.port = static_cast<std::uint16_t>((unsigned{data[1]} << 8) | data[2]);
  Resolved resolved{static_cast<Resolution>(data[4] >> 6), {}};
  for (unsigned i = 0; i < (data[4] & 0x3fU); ++i) {
    const auto bytes = reader.take(i % 2 == 0 ? 4 : 16);
    if (!bytes) break;
    resolved.addresses.push_back(*IpAddress::from_bytes(*bytes));
  }
  const std::string_view text = as_text(*reader.take(reader.left()));
  const std::size_t end = std::min(text.find('\n'), text.size());
  auto host = HostName::parse(text.substr(0, end));
  if (host) {
    request.host = std::move(*host);
  } else {
    request.host = host.error();
  }
  request.first = first_bytes(data[3], text.substr(std::min(end + 1, text.size())));
  const Verdict verdict = decide(request, rules, resolved);
  require(!verdict.text.empty() && !to_string(verdict).empty());
  if (verdict.allowed()) check_allowed(request, rules, verdict);
  if (verdict.outcome == Outcome::Deny) require(verdict.addresses.empty());
  return 0;
}
