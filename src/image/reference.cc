#include "image/reference.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>

#include "policy/host_name.h"

namespace caisson::image {

namespace {

constexpr std::string_view kLibrary = "library/";
constexpr std::size_t kShownBytesMax = 160;

std::unexpected<Error> bad(std::string_view text, std::string_view why) {
  return bad_field("image", fmt::format("'{}' is not the name of an image: {}",
                                        text.substr(0, kShownBytesMax), why));
}

bool is_lower_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Letters and digits, and between them one '.', one or two '_', or any number of '-'.
bool is_path_component(std::string_view text) {
  if (text.empty() || !is_lower_alnum(text.front()) || !is_lower_alnum(text.back())) return false;
  for (std::size_t i = 0; i < text.size();) {
    if (is_lower_alnum(text[i])) {
      ++i;
      continue;
    }
    const std::size_t end = std::min(text.find_first_not_of(text[i], i), text.size());
    const std::size_t run = end - i;
    if (text[i] == '-' || (text[i] == '.' && run == 1) || (text[i] == '_' && run <= 2)) {
      i = end;
      if (!is_lower_alnum(text[i])) return false;
      continue;
    }
    return false;
  }
  return true;
}

bool is_tag(std::string_view text) {
  const auto word = [](char c) { return is_lower_alnum(c) || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && text.size() <= kTagBytesMax && word(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return word(c) || c == '.' || c == '-'; });
}

Result<void> check_repository(std::string_view whole, std::string_view path) {
  if (path.empty()) return bad(whole, "the part after the registry is missing");
  if (path.size() > kRepositoryBytesMax) return bad(whole, "its path is longer than 255 bytes");
  while (true) {
    const std::size_t slash = path.find('/');
    if (!is_path_component(path.substr(0, slash))) {
      return bad(whole,
                 "its path is lower-case letters and digits, separated by '/', '.', '_', '__' or "
                 "'-'");
    }
    if (slash == path.npos) return {};
    path.remove_prefix(slash + 1);
  }
}

// Docker also takes a first part with capitals for a registry. In lower case, as it is written from
// then on, it would be read as a part of the path: such a name is refused.
bool names_registry(std::string_view first) {
  return first == "localhost" || first.find_first_of(".:[") != first.npos;
}

// An address as its family's one spelling, or nothing.
std::optional<std::string> address_text(std::string_view host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  boost::system::error_code ec;
  if (bracketed) {
    const std::string inside(host.substr(1, host.size() - 2));
    const auto six = boost::asio::ip::make_address_v6(inside, ec);
    if (ec || inside.find('%') != inside.npos) return std::nullopt;
    return "[" + six.to_string() + "]";
  }
  const auto four = boost::asio::ip::make_address_v4(std::string(host), ec);
  if (ec || four.to_string() != host) return std::nullopt;
  return four.to_string();
}

}  // namespace

Result<std::string> canonical_registry(std::string_view text) {
  if (text.size() > kReferenceBytesMax || text.find('\0') != text.npos) {
    return bad_field("registry", "the registry's name is too long or has a NUL in it");
  }
  std::string_view host = text;
  std::string port;
  const std::size_t bracket = text.rfind(']');
  const std::size_t colon = text.find(':', bracket == text.npos ? 0 : bracket);
  if (colon != text.npos) {
    host = text.substr(0, colon);
    const auto number = TRY(policy::parse_port(text.substr(colon + 1)));
    port = fmt::format(":{}", number);
  }
  if (auto address = address_text(host)) return *address + port;
  const std::string name = TRY_IN("registry", policy::canonical_host(host));
  // Docker's own names of its registry mean one thing.
  if (port.empty() && (name == "index.docker.io" || name == "registry-1.docker.io")) {
    return std::string(kDefaultRegistry);
  }
  return name + port;
}

Result<Reference> Reference::parse(std::string_view text) {
  if (text.empty()) return bad(text, "it is empty");
  if (text.size() > kReferenceBytesMax) return bad(text, "it is longer than 512 bytes");
  Reference out;
  std::string_view rest = text;
  if (const std::size_t at = rest.find('@'); at != rest.npos) {
    auto digest = Digest::parse(rest.substr(at + 1));
    if (!digest) return bad(text, digest.error().message);
    out.digest_ = std::move(*digest);
    rest = rest.substr(0, at);
  }
  const std::size_t last_slash = rest.rfind('/');
  const std::size_t colon = rest.find(':', last_slash == rest.npos ? 0 : last_slash);
  if (colon != rest.npos) {
    if (!is_tag(rest.substr(colon + 1))) {
      return bad(text, "its tag is up to 128 letters, digits, '_', '.' and '-'");
    }
    out.tag_ = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
  }
  const std::size_t slash = rest.find('/');
  if (slash != rest.npos && names_registry(rest.substr(0, slash))) {
    auto registry = canonical_registry(rest.substr(0, slash));
    if (!registry) return bad(text, registry.error().message);
    out.registry_ = std::move(*registry);
    rest.remove_prefix(slash + 1);
  } else {
    out.registry_ = kDefaultRegistry;
  }
  TRY(check_repository(text, rest));
  out.repository_ = rest;
  if (out.registry_ == kDefaultRegistry && rest.find('/') == rest.npos) {
    out.repository_.insert(0, kLibrary);
  }
  if (out.tag_.empty() && !out.digest_) out.tag_ = "latest";
  // 64 hex digits would be read as an image's id elsewhere: refused there and here.
  if (rest.size() == 64 && rest.find_first_not_of("0123456789abcdef") == rest.npos) {
    return bad(text, "64 hex digits are an id and not a name; write name@sha256:<digits>");
  }
  return out;
}

std::string Reference::str() const {
  std::string out = registry_ + "/" + repository_;
  if (!tag_.empty()) out += ":" + tag_;
  if (digest_) out += "@" + digest_->str();
  return out;
}

std::string Reference::familiar() const {
  std::string out = str();
  if (registry_ != kDefaultRegistry) return out;
  out.erase(0, registry_.size() + 1);
  const bool one_part = repository_.find('/', kLibrary.size()) == repository_.npos;
  if (repository_.starts_with(kLibrary) && one_part) out.erase(0, kLibrary.size());
  return out;
}

Reference Reference::with_digest(Digest digest) const {
  Reference out = *this;
  out.digest_ = std::move(digest);
  return out;
}

}  // namespace caisson::image
