#include "egress/gate/gateway.h"

#include <charconv>

namespace caisson::egress {

namespace {

constexpr std::string_view kHttps = "https://";
constexpr std::string_view kHttp = "http://";
constexpr std::uint16_t kHttpsPort = 443;
constexpr std::uint16_t kPlainPort = 80;

std::unexpected<Error> unreadable(std::string_view upstream) {
  return failure(Errc::InvalidArgument,
                 "upstream: '" + std::string(upstream) + "' is no address of a provider");
}

std::string_view segment_of(Provider provider) {
  return provider == Provider::OpenAi ? "/openai" : "/anthropic";
}

}  // namespace

Result<GatewayProvider> gateway_provider(Provider provider,
                                         const policy::GatewaySettings& settings) {
  GatewayProvider out;
  out.provider = provider;
  out.path_prefix = settings.path_prefix;
  out.key_secret = settings.key_secret;
  std::string_view rest = settings.upstream;
  out.tls = rest.starts_with(kHttps);
  if (!out.tls && !rest.starts_with(kHttp)) return unreadable(settings.upstream);
  rest.remove_prefix(out.tls ? kHttps.size() : kHttp.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  out.host = rest;
  out.port = out.tls ? kHttpsPort : kPlainPort;
  const std::size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && rest.find(']', colon) == rest.npos &&
                        (rest.front() == '[' || rest.find(':') == colon);
  if (has_port) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto [end, wrong] =
        std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
    if (wrong != std::errc() || end != digits.data() + digits.size() || out.port == 0)
      return unreadable(settings.upstream);
    rest = rest.substr(0, colon);
  }
  std::string_view bare = rest;
  if (bare.starts_with('[') && bare.ends_with(']')) bare = bare.substr(1, bare.size() - 2);
  out.address = IpAddress::parse(bare);
  if (!out.address && bare == "localhost") out.address = IpAddress::parse("127.0.0.1");
  if (out.address && !out.tls) return out;
  auto name = HostName::parse(bare);
  if (!name) return unreadable(settings.upstream);
  out.name = std::move(*name);
  return out;
}

std::optional<Gateway::Found> Gateway::find(std::string_view target) const {
  for (const GatewayProvider& one : providers) {
    const std::string_view segment = segment_of(one.provider);
    if (!target.starts_with(segment)) continue;
    const std::string_view rest = target.substr(segment.size());
    if (rest.empty() || rest.front() != '/') continue;
    return Found{&one, std::string(rest)};
  }
  return std::nullopt;
}

}  // namespace caisson::egress
