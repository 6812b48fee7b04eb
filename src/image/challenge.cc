#include "image/challenge.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "image/json.h"
#include "image/registry.h"

namespace caisson::image {

namespace {

constexpr std::uint64_t kLifetimeMax = 24ULL * 3600;
constexpr std::uint64_t kLifetimeDefault = 60;

bool equals_fold(std::string_view left, std::string_view right) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(left, right, {}, lower, lower);
}

void skip(std::string_view& text, std::string_view what) {
  text.remove_prefix(std::min(text.find_first_not_of(what), text.size()));
}

// A quoted or a bare value; nothing when the quotes do not close.
std::optional<std::string> take_value(std::string_view& text) {
  std::string out;
  if (!text.starts_with('"')) {
    const std::size_t end = std::min(text.find_first_of(", \t"), text.size());
    out = text.substr(0, end);
    text.remove_prefix(end);
    return out;
  }
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return out;
    }
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out += text[i];
  }
  return std::nullopt;
}

std::optional<Challenge> parse_one(std::string_view text) {
  if (text.size() > kChallengeBytesMax) return std::nullopt;
  skip(text, " \t");
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::string_view scheme = text.substr(0, space);
  text.remove_prefix(space);
  Challenge out;
  if (equals_fold(scheme, "bearer")) {
    out.scheme = Challenge::Scheme::Bearer;
  } else if (!equals_fold(scheme, "basic")) {
    return std::nullopt;
  }
  for (std::size_t count = 0; count < kChallengeParametersMax; ++count) {
    skip(text, " \t,");
    const std::size_t equals = text.find('=');
    if (equals == text.npos) break;
    const std::string_view name = text.substr(0, equals);
    text.remove_prefix(equals + 1);
    auto value = take_value(text);
    if (!value) return std::nullopt;
    if (equals_fold(name, "realm")) out.realm = std::move(*value);
    if (equals_fold(name, "service")) out.service = std::move(*value);
  }
  if (out.scheme == Challenge::Scheme::Bearer && out.realm.empty()) return std::nullopt;
  return out;
}

}  // namespace

Result<Challenge> parse_challenge(const std::vector<std::string>& fields) {
  std::optional<Challenge> basic;
  for (const std::string& field : fields) {
    auto one = parse_one(field);
    if (!one) continue;
    if (one->scheme == Challenge::Scheme::Bearer) return *std::move(one);
    if (!basic) basic = std::move(one);
  }
  if (basic) return *std::move(basic);
  return failure(Errc::Protocol,
                 "the registry wants to know who we are and does not say how (neither Bearer nor "
                 "Basic)");
}

Result<Token> parse_token(std::string_view body) {
  const auto object = TRY(parse_json_object(body, kTokenBytesMax, "the token service's answer"));
  const JsonReader reader(object, "the token service's answer:");
  Token out;
  out.text = TRY(reader.text("token", kTokenBytesMax));
  if (out.text.empty()) out.text = TRY(reader.text("access_token", kTokenBytesMax));
  if (out.text.empty()) return bad_document("the token service's answer", "has no token");
  // It becomes a header field.
  if (!std::ranges::all_of(out.text, [](char c) { return c > 0x20 && c < 0x7f; })) {
    return bad_document("the token service's answer", "has a token with odd characters");
  }
  std::uint64_t lifetime = kLifetimeDefault;
  if (reader.has("expires_in")) {
    lifetime = reader.number("expires_in", kLifetimeMax).value_or(kLifetimeDefault);
  }
  out.lifetime = seconds(lifetime);
  return out;
}

}  // namespace caisson::image
