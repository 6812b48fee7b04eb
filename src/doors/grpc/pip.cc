#include "doors/grpc/pip.h"

#include <algorithm>
#include <charconv>

namespace caisson::grpc {
namespace {

constexpr std::string_view kIndex = "pypi.org";
constexpr std::string_view kFiles = "files.pythonhosted.org";

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::size_t count_while(std::string_view text, std::string_view more) noexcept {
  std::size_t at = 0;
  while (at < text.size() && (is_word(text[at]) || more.find(text[at]) != std::string_view::npos))
    ++at;
  return at;
}

struct IndexPlace {
  std::string host;
  std::uint16_t port = 0;
};

IndexPlace place_of(std::string_view url) {
  IndexPlace out;
  const bool encrypted = url.starts_with("https://");
  url.remove_prefix(url.find("://") + 3);
  std::string_view authority = url.substr(0, url.find('/'));
  out.port = encrypted ? 443 : 80;
  if (const std::size_t colon = authority.rfind(':'); colon != std::string_view::npos) {
    const std::string_view digits = authority.substr(colon + 1);
    (void)std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
    authority = authority.substr(0, colon);
  }
  out.host = authority;
  return out;
}

}  // namespace

bool may_use_pip(const std::vector<std::string>& hosts) {
  return std::ranges::find(hosts, kIndex) != hosts.end() &&
         std::ranges::find(hosts, kFiles) != hosts.end();
}

bool is_package(std::string_view text) noexcept {
  if (text.empty() || !is_word(text.front())) return false;
  text.remove_prefix(count_while(text, "._-"));
  if (text.starts_with('[')) {
    text.remove_prefix(1);
    const std::size_t extras = count_while(text, ",._-");
    if (extras == 0 || extras == text.size() || text[extras] != ']') return false;
    text.remove_prefix(extras + 1);
  }
  if (text.empty()) return true;
  // One or more of these, and then something that may hold more of them.
  constexpr std::string_view kCompare = "<>=!~";
  if (kCompare.find(text.front()) == std::string_view::npos) return false;
  return text.size() > 1 && count_while(text, ".*,<>=!~") == text.size();
}

control::EgressRules index_rules(const GrpcOptions& options) {
  if (options.pip_index_url.empty()) return {};
  const IndexPlace place = place_of(options.pip_index_url);
  policy::NetworkEgressRule rule;
  rule.domain = place.host;
  rule.ports = {place.port};
  rule.granted_addresses = options.pip_index_addresses;
  rule.rate_limit_per_min = policy::kRateLimitPerMinMax;
  return {rule};
}

std::vector<std::pair<std::string, std::string>> pip_environment(const GrpcOptions& options) {
  // An image of a distribution keeps pip from its own Python; here there is no other use for it.
  std::vector<std::pair<std::string, std::string>> out{{"PIP_BREAK_SYSTEM_PACKAGES", "1"}};
  if (options.pip_index_url.empty()) return out;
  out.emplace_back("PIP_INDEX_URL", options.pip_index_url);
  if (options.pip_index_url.starts_with("http://"))
    out.emplace_back("PIP_TRUSTED_HOST", place_of(options.pip_index_url).host);
  return out;
}

}  // namespace caisson::grpc
