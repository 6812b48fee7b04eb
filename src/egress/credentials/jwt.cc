#include "egress/credentials/jwt.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/base64.h"
#include "policy/host_name.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

namespace json = boost::json;

constexpr std::string_view kIssuer = "sandbox-egress-control";
constexpr std::string_view kHeader = R"({"typ":"JWT","alg":"HS256"})";
constexpr std::size_t kJsonDepthMax = 4;
constexpr std::size_t kMacBytes = 32;
using Mac = std::array<unsigned char, kMacBytes>;

std::string to_base64url(std::string_view bytes) {
  std::string out = to_base64(bytes);
  while (out.ends_with('=')) out.pop_back();
  std::ranges::replace(out, '+', '-');
  std::ranges::replace(out, '/', '_');
  return out;
}

// One spelling for each content: no padding, no letters of the other alphabet.
std::optional<std::string> from_base64url(std::string_view text) {
  if (text.find_first_of("+/=") != std::string_view::npos) return std::nullopt;
  std::string padded(text);
  std::ranges::replace(padded, '-', '+');
  std::ranges::replace(padded, '_', '/');
  padded.append((4 - padded.size() % 4) % 4, '=');
  return from_base64(padded);
}

std::optional<Mac> mac_of(const Secret& key, std::string_view signed_text) {
  Mac out{};
  unsigned size = 0;
  const auto* done = HMAC(EVP_sha256(), key.expose().data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(signed_text.data()),
                          signed_text.size(), out.data(), &size);
  if (done == nullptr || size != kMacBytes) return std::nullopt;
  return out;
}

std::string_view as_view(const Mac& mac) {
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

std::optional<json::object> parse_object(std::string_view text) {
  json::parse_options options;
  options.max_depth = kJsonDepthMax;
  json::error_code ec;
  json::value value = json::parse({text.data(), text.size()}, ec, json::storage_ptr(), options);
  if (ec || !value.is_object()) return std::nullopt;
  return std::move(value.as_object());
}

struct Parts {
  std::string_view header, claims, signature, signed_text;
};

std::optional<Parts> split(std::string_view token) {
  const std::size_t first = token.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = token.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  if (token.find('.', second + 1) != std::string_view::npos) return std::nullopt;
  return Parts{token.substr(0, first), token.substr(first + 1, second - first - 1),
               token.substr(second + 1), token.substr(0, second)};
}

bool add_host(std::vector<std::string>& hosts, std::string_view text) {
  const std::string_view host = trimmed(text);
  if (host.empty()) return true;
  if (hosts.size() == kTokenHostsMax) return false;
  hosts.emplace_back(host);
  return true;
}

// A string with commas, or a list of strings.
std::optional<std::vector<std::string>> read_hosts(const json::value* value) {
  std::vector<std::string> hosts;
  if (value == nullptr) return std::nullopt;
  if (const auto* text = value->if_string()) {
    std::string_view rest = view(*text);
    for (;;) {
      const std::size_t comma = rest.find(',');
      if (!add_host(hosts, rest.substr(0, comma))) return std::nullopt;
      if (comma == std::string_view::npos) return hosts;
      rest.remove_prefix(comma + 1);
    }
  }
  const auto* list = value->if_array();
  if (list == nullptr) return std::nullopt;
  for (const json::value& item : *list) {
    if (!item.is_string() || !add_host(hosts, view(item.get_string()))) return std::nullopt;
  }
  return hosts;
}

std::expected<ProxyClaims, TokenFault> read_claims(const json::object& object, WallTime now) {
  const auto text_of = [&object](json::string_view name) -> const json::string* {
    const json::value* value = object.if_contains(name);
    return value == nullptr ? nullptr : value->if_string();
  };
  const json::string* issuer = text_of("iss");
  const json::string* session = text_of("session_id");
  if (issuer == nullptr || view(*issuer) != kIssuer || session == nullptr || session->empty())
    return std::unexpected(TokenFault::Claims);
  ProxyClaims claims;
  claims.session_id = view(*session);
  if (const json::value* tenant = object.if_contains("tenant_id");
      tenant != nullptr && !tenant->is_null()) {
    if (!tenant->is_string()) return std::unexpected(TokenFault::Claims);
    claims.tenant_id = view(tenant->get_string());
  }
  auto hosts = read_hosts(object.if_contains("allowed_hosts"));
  if (!hosts) return std::unexpected(TokenFault::Claims);
  claims.allowed_hosts = std::move(*hosts);
  const json::value* end = object.if_contains("exp");
  if (end == nullptr || !end->is_int64()) return std::unexpected(TokenFault::Expired);
  claims.expires = end->get_int64();
  const auto today =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  if (claims.expires < today) return std::unexpected(TokenFault::Expired);
  return claims;
}

}  // namespace

std::string_view to_string(TokenFault fault) noexcept {
  switch (fault) {
    case TokenFault::TooLong:
      return "too_long";
    case TokenFault::Malformed:
      return "malformed";
    case TokenFault::Algorithm:
      return "algorithm";
    case TokenFault::Signature:
      return "signature";
    case TokenFault::Claims:
      return "claims";
    case TokenFault::Expired:
      return "expired";
  }
  return "malformed";
}

Result<std::string> mint_token(const Secret& key, const ProxyClaims& claims) {
  if (key.size() < kTokenKeyBytesMin) {
    return failure(Errc::InvalidArgument, fmt::format("a key that signs tokens has at least {} "
                                                      "bytes, this one has {}",
                                                      kTokenKeyBytesMin, key.size()));
  }
  std::string hosts;
  for (const std::string& host : claims.allowed_hosts) {
    if (host.find(',') != std::string::npos) {
      return bad_field("allowed_hosts",
                       fmt::format("allowed_hosts: {} holds a comma", policy::in_quotes(host)));
    }
    hosts += (hosts.empty() ? "" : ",") + host;
  }
  json::object object;  // keeps the order, which is the contract's
  object["iss"] = json::string_view(kIssuer.data(), kIssuer.size());
  object["session_id"] = claims.session_id;
  object["tenant_id"] = nullptr;
  if (claims.tenant_id) object["tenant_id"] = *claims.tenant_id;
  object["allowed_hosts"] = hosts;
  object["exp"] = claims.expires;
  std::string token = to_base64url(kHeader) + '.' + to_base64url(json::serialize(object));
  const auto mac = mac_of(key, token);
  if (!mac) return failure(Errc::Internal, "HMAC-SHA256 is not to be had from OpenSSL");
  token += '.' + to_base64url(as_view(*mac));
  if (token.size() > kTokenBytesMax) {
    return failure(Errc::TooLarge, fmt::format("allowed_hosts: a token has at most {} bytes, this "
                                               "one would have {}",
                                               kTokenBytesMax, token.size()));
  }
  return token;
}

std::expected<ProxyClaims, TokenFault> verify_token(const Secret& key, std::string_view token,
                                                    WallTime now) {
  if (token.size() > kTokenBytesMax) return std::unexpected(TokenFault::TooLong);
  const auto parts = split(token);
  if (!parts) return std::unexpected(TokenFault::Malformed);
  const auto header_text = from_base64url(parts->header);
  const auto claims_text = from_base64url(parts->claims);
  const auto signature = from_base64url(parts->signature);
  if (!header_text || !claims_text || !signature) return std::unexpected(TokenFault::Malformed);
  const auto header = parse_object(*header_text);
  if (!header) return std::unexpected(TokenFault::Malformed);
  const json::value* algorithm = header->if_contains("alg");
  if (algorithm == nullptr || !algorithm->is_string() || view(algorithm->get_string()) != "HS256") {
    return std::unexpected(TokenFault::Algorithm);
  }
  // A key that is too short to mint with is too short to believe.
  const auto mac = mac_of(key, parts->signed_text);
  if (!mac || key.size() < kTokenKeyBytesMin || signature->size() != kMacBytes ||
      CRYPTO_memcmp(mac->data(), signature->data(), kMacBytes) != 0) {
    return std::unexpected(TokenFault::Signature);
  }
  const auto claims = parse_object(*claims_text);
  if (!claims) return std::unexpected(TokenFault::Malformed);
  return read_claims(*claims, now);
}

std::optional<std::string> token_of(std::string_view proxy_authorization) {
  constexpr std::string_view kScheme = "basic";
  constexpr std::string_view kMark = "jwt_";
  std::string_view text = trimmed(proxy_authorization);
  // In base64 a token and its user's name take a third more.
  if (text.size() > kTokenBytesMax * 2 || text.size() <= kScheme.size()) return std::nullopt;
  if (policy::lower(text.substr(0, kScheme.size())) != kScheme || text[kScheme.size()] != ' ')
    return std::nullopt;
  const auto login = from_base64(trimmed(text.substr(kScheme.size() + 1)));
  if (!login) return std::nullopt;
  const std::size_t colon = login->find(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string_view password = std::string_view(*login).substr(colon + 1);
  if (!password.starts_with(kMark)) return std::nullopt;
  return std::string(password.substr(kMark.size()));
}

std::vector<policy::NetworkEgressRule> rules_of_hosts(
    const std::vector<std::string>& allowed_hosts) {
  std::vector<policy::NetworkEgressRule> rules;
  for (const std::string& host : allowed_hosts) {
    const auto domain = policy::canonical_rule_domain(trimmed(host));
    if (!domain || *domain == "localhost" || domain->ends_with(".localhost")) continue;
    const bool twice =
        std::ranges::find(rules, *domain, &policy::NetworkEgressRule::domain) != rules.end();
    if (twice || rules.size() == policy::kEgressRulesMax) continue;
    policy::NetworkEgressRule rule;
    rule.domain = *domain;
    rule.ports = {80, 443};
    rule.rate_limit_per_min = policy::kRateLimitPerMinMax;  // that dialect knows none
    rule.apex = policy::Apex::Included;
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace caisson::egress
