// How programs inside are shown the proxy: its place, its variables, what its token says.
#include <fmt/format.h>

#include <algorithm>

#include "control/network_rules.h"
#include "control/text.h"
#include "egress/credentials/jwt.h"
#include "egress/wire/host_name.h"
#include "policy/way_out.h"

namespace caisson::control {
namespace {

constexpr std::string_view kHere = "127.0.0.1";
constexpr std::size_t kWordBytesMax = 128;  // of a session's or tenant's name
constexpr std::size_t kHostBytesMax = 253;

Result<ProxyPlace> judged(ProxyPlace place) {
  if (place.port == 0 || place.port == policy::kResolverPort) {
    return bad_field("network.proxy.port",
                     fmt::format("network.proxy.port is {}: want 1 to 65535, and not {}, where the "
                                 "resolver is",
                                 place.port, policy::kResolverPort));
  }
  if (place.host == kHere) return place;
  const auto name = egress::HostName::parse(place.host);
  if (!name) {
    return bad_field("network.proxy.host",
                     fmt::format("network.proxy.host is '{}': want {} or a name, as egress-proxy",
                                 cut_text(place.host, 80), kHere));
  }
  place.host = name->text();
  return place;
}

// A comma would make two of one, and what is not text would not be read anywhere.
Result<void> check_words(const TokenWords& words) {
  const auto check = [](const std::string& text, std::size_t most, const std::string& field) {
    const std::size_t least = most == kWordBytesMax ? 1 : 0;  // hosts are echoed, whatever they are
    const bool odd = std::ranges::any_of(
        text, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == ','; });
    if (text.size() >= least && text.size() <= most && !odd && is_utf8(text)) return Result<void>();
    return Result<void>(
        bad_field(field, fmt::format("{} is '{}': want {} to {} bytes of text without commas",
                                     field, cut_text(text, 80), least, most)));
  };
  TRY(check(words.session_id, kWordBytesMax, "network.words.session_id"));
  if (words.tenant_id) TRY(check(*words.tenant_id, kWordBytesMax, "network.words.tenant_id"));
  if (words.allowed_hosts.size() > egress::kTokenHostsMax) {
    return bad_field("network.words.allowed_hosts",
                     fmt::format("network.words.allowed_hosts: {} are too many, want at most {}",
                                 words.allowed_hosts.size(), egress::kTokenHostsMax));
  }
  for (const std::string& host : words.allowed_hosts)
    TRY(check(host, kHostBytesMax, "network.words.allowed_hosts"));
  return {};
}

}  // namespace

Result<ProxyManner> proxy_manner_of(const NetworkWish& wish, const NetworkWish& profile) {
  ProxyManner manner;
  manner.variables = wish.variables.value_or(profile.variables.value_or(true));
  const std::optional<ProxyPlace>& place = wish.proxy ? wish.proxy : profile.proxy;
  if (place) manner.place = TRY(judged(*place));
  manner.words = wish.words ? wish.words : profile.words;
  if (manner.words) TRY(check_words(*manner.words));
  return manner;
}

Result<void> check_proxy_kept(const NetworkWish& wish, const ProxyManner& kept) {
  const ProxyManner said = TRY(proxy_manner_of(wish, {}));
  const auto fixed = [](const std::string& field) {
    return bad_field(field, field + ": is fixed when a sandbox is created; leave it out");
  };
  if (wish.variables && said.variables != kept.variables) return fixed("network.variables");
  if (wish.proxy && said.place != kept.place) return fixed("network.proxy");
  if (wish.words && said.words != kept.words) return fixed("network.words");
  return {};
}

// Exactly these, because clients of that dialect look at what there is.
std::vector<std::string> way_out_environment(const std::string& token, const ProxyPlace& place) {
  const std::string who = token.empty() ? "" : "sandbox:jwt_" + token + "@";
  const std::string proxy = fmt::format("http://{}{}:{}", who, place.host, place.port);
  std::vector<std::string> out;
  for (const char* name : {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"})
    out.push_back(std::string(name) + "=" + proxy);
  return out;
}

}  // namespace caisson::control
