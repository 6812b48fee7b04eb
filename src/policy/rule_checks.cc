#include "policy/rule_checks.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "policy/host_name.h"
#include "policy/wording.h"

namespace caisson::policy {

namespace {

// Lower case, sorted by what they are for.
constexpr std::array<std::string_view, 12> kReservedHeaders = {
    // the message's end and its host
    "host", "content-length", "transfer-encoding", "trailer",
    // one hop only
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "upgrade", "expect"};

bool is_token_byte(char c) {
  return is_letter(c) || is_digit(c) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

Result<void> check_count(std::size_t count, std::size_t max) {
  if (count <= max) return {};
  return failure(Errc::InvalidArgument, fmt::format("has {} entries, at most {}", count, max));
}

Result<void> check_rule_details(const NetworkEgressRule& rule) {
  TRY_IN("methods", check_count(rule.methods.size(), kMethodsPerRuleMax));
  for (const std::string& method : rule.methods) TRY_IN("methods", check_method(method));
  TRY_IN("path_prefixes", check_count(rule.path_prefixes.size(), kPathPrefixesPerRuleMax));
  for (const std::string& prefix : rule.path_prefixes) {
    TRY_IN("path_prefixes", check_path_prefix(prefix));
  }
  TRY_IN("max_bytes", check_whole(rule.max_bytes, 0, kEgressBytesMax));
  TRY_IN("granted_addresses",
         check_count(rule.granted_addresses.size(), kGrantedAddressesPerRuleMax));
  return {};
}

}  // namespace

Result<std::string> check_method(std::string_view method) {
  // Methods are case-sensitive, and those in use are upper case: "get" would match nothing.
  bool good = !method.empty() && method.size() <= kMethodBytesMax;
  for (const char c : method) good = good && ((c >= 'A' && c <= 'Z') || c == '-' || c == '_');
  if (good) return std::string(method);
  return failure(Errc::InvalidArgument,
                 fmt::format("{} is not an HTTP method: capital letters", in_quotes(method)));
}

Result<std::string> check_path_prefix(std::string_view prefix) {
  bool good = prefix.starts_with('/') && prefix.size() <= kPathPrefixBytesMax;
  for (const char c : prefix) good = good && c > ' ' && c < 0x7f;
  good = good && prefix.find_first_of("?#%\\;") == std::string_view::npos &&
         prefix.find("//") == std::string_view::npos &&
         prefix.find("/./") == std::string_view::npos &&
         prefix.find("/../") == std::string_view::npos && !prefix.ends_with("/.") &&
         !prefix.ends_with("/..");
  if (good) return std::string(prefix);
  return failure(Errc::InvalidArgument,
                 fmt::format("{} is not the beginning of a path: '/' and plain segments, without "
                             "escapes, dots alone, '?' or '#'",
                             in_quotes(prefix)));
}

Result<std::string> check_address_text(std::string_view address) {
  const std::string text(address);
  std::array<unsigned char, sizeof(in6_addr)> raw{};
  const bool whole = text.find('\0') == std::string::npos;
  if (whole && (::inet_pton(AF_INET, text.c_str(), raw.data()) == 1 ||
                ::inet_pton(AF_INET6, text.c_str(), raw.data()) == 1)) {
    return text;
  }
  return failure(
      Errc::InvalidArgument,
      fmt::format("{} is not an IP address such as 10.0.0.5 or fd00::5", in_quotes(text)));
}

Result<std::string> check_header_name(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kHeaderNameBytesMax &&
                    std::ranges::all_of(name, is_token_byte);
  if (!good) {
    return failure(Errc::InvalidArgument,
                   fmt::format("{} is not the name of a header: letters, digits and '-', at most "
                               "{} bytes",
                               in_quotes(name), kHeaderNameBytesMax));
  }
  if (std::ranges::find(kReservedHeaders, lower(name)) != kReservedHeaders.end()) {
    return failure(Errc::InvalidArgument,
                   fmt::format("{} cannot be injected: it says where a request goes or ends, or "
                               "belongs to one hop",
                               in_quotes(name)));
  }
  return std::string(name);
}

Result<std::string> check_secret_name(std::string_view name) {
  const auto fits = [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '-';
  };
  if (!name.empty() && name.size() <= kSecretNameBytesMax && std::ranges::all_of(name, fits)) {
    return std::string(name);
  }
  // The value is not quoted: who writes the secret itself where its name belongs should not find it
  // in a log.
  return failure(Errc::InvalidArgument,
                 fmt::format("not the name of a secret: letters, digits, '_', '.' and '-', at most "
                             "{}; the secret itself is kept elsewhere, by this name",
                             kSecretNameBytesMax));
}

Result<std::string> check_header_prefix(std::string_view prefix) {
  const auto fits = [](char c) { return c >= ' ' && c < 0x7f; };
  if (prefix.size() <= kHeaderPrefixBytesMax && !prefix.starts_with(' ') &&
      std::ranges::all_of(prefix, fits)) {
    return std::string(prefix);
  }
  return failure(Errc::InvalidArgument,
                 fmt::format("{} cannot stand before a secret: printable ASCII, no space first, at "
                             "most {} bytes",
                             in_quotes(prefix), kHeaderPrefixBytesMax));
}

Result<void> check_injections(const std::vector<HeaderInjection>& inject) {
  TRY(check_count(inject.size(), kInjectionsPerRuleMax));
  for (std::size_t i = 0; i < inject.size(); ++i) {
    for (std::size_t before = 0; before < i; ++before) {
      if (lower(inject[before].header) != lower(inject[i].header)) continue;
      return failure(Errc::InvalidArgument,
                     fmt::format("header {} is named twice", in_quotes(inject[i].header)));
    }
  }
  return {};
}

// An address is granted to one name. Whether a secret may go to every host is a question of whose
// it is, which is asked where that is known.
static Result<void> check_every_name(const NetworkEgressRule& rule) {
  if (rule.granted_addresses.empty()) return {};
  return failure(Errc::InvalidArgument,
                 "granted_addresses: a rule for every name, \"*\", cannot grant an address; name "
                 "the domain");
}

Result<void> check_rule(NetworkEgressRule& rule) {
  if (rule.every_name) {
    TRY(check_every_name(rule));
    rule.domain = kEveryName;
  } else {
    rule.domain = TRY_IN("domain", canonical_rule_domain(rule.domain));
    if (rule.otherwise)
      return failure(Errc::InvalidArgument,
                     "otherwise: is for a rule for every name, \"*\", and for no other");
  }
  TRY_IN("ports", check_count(rule.ports.size(), kPortsPerRuleMax));
  for (const std::uint16_t port : rule.ports) TRY_IN("ports", check_whole(port, 1, kPortMax));
  TRY_IN("rate_limit_per_min", check_whole(rule.rate_limit_per_min, 1, kRateLimitPerMinMax));
  TRY(check_rule_details(rule));
  TRY_IN("inject", check_injections(rule.inject));
  for (const HeaderInjection& one : rule.inject) {
    TRY_IN("inject.header", check_header_name(one.header));
    TRY_IN("inject.secret", check_secret_name(one.secret));
    TRY_IN("inject.prefix", check_header_prefix(one.prefix));
  }
  return {};
}

}  // namespace caisson::policy
