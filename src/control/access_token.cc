#include "control/access_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "store/digest.h"
#include "sys/file.h"

namespace caisson::control {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";

struct ScopeName {
  std::string_view name;
  store::Scope scope;
};
constexpr std::array kScopes = {
    ScopeName{"admin", store::Scope::Admin}, ScopeName{"create", store::Scope::Create},
    ScopeName{"use", store::Scope::Use}, ScopeName{"read", store::Scope::Read}};
constexpr std::uint8_t kAllScopes = 15;

bool is_base32(std::string_view text) noexcept {
  return text.find_first_not_of(kAlphabet) == std::string_view::npos;
}

Result<void> check_label(const std::string& label) {
  if (label.size() > kTokenLabelBytesMax) {
    return bad_field("label", fmt::format("label: {} bytes are too long: at most {}", label.size(),
                                          kTokenLabelBytesMax));
  }
  const auto is_control = [](char letter) {
    return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F;
  };
  if (std::ranges::any_of(label, is_control))
    return bad_field("label", "label: a control character stands in it: want printable text");
  return {};
}

constexpr std::string_view kTakenOverSalt = "caisson taken over token";

Result<void> check_taken_over(std::string_view text) {
  if (text.size() < kTakenOverBytesMin || text.size() > kCredentialBytesMax) {
    return bad_field(
        "taken_over",
        fmt::format("taken_over: want {} to {} characters, got {}: a shorter one could "
                    "be guessed; have a new token made",
                    kTakenOverBytesMin, kCredentialBytesMax, text.size()));
  }
  if (parse_credential(text)) {
    return bad_field("taken_over",
                     "taken_over: it is written as a token of caisson, which no other system gives "
                     "out; have a new token made");
  }
  if (taken_over_id(text)) return {};
  return bad_field("taken_over", "taken_over: want printable ASCII without blanks");
}

Result<void> make_secret(NewToken& made) {
  std::array<std::byte, 8> id{};
  std::array<std::byte, 32> secret{};
  TRY(sys::random_bytes(id));
  TRY(sys::random_bytes(secret));
  const std::string secret_text = base32(secret, kTokenSecretLength);
  made.record.id = base32(id, kTokenIdLength);
  made.record.sha256 = store::to_hex(store::sha256(secret_text));
  made.secret = fmt::format("{}{}_{}", kTokenPrefix, made.record.id, secret_text);
  return {};
}

Result<void> check_wish(const TokenWish& wish) {
  TRY(check_tenant(wish.tenant));
  TRY(check_label(wish.label));
  if (wish.scopes == 0 || (wish.scopes & ~kAllScopes) != 0)
    return bad_field("scopes", "scopes: want one or more of admin, create, use, read");
  if (wish.expires_seconds && !(std::isfinite(*wish.expires_seconds) && *wish.expires_seconds > 0 &&
                                *wish.expires_seconds <= kTokenSecondsMax)) {
    return bad_field("expires_seconds",
                     fmt::format("expires_seconds: {} is not a time to live: want more than 0 and "
                                 "at most {:.0f}",
                                 *wish.expires_seconds, kTokenSecondsMax));
  }
  if (wish.max_sandboxes < 0 || wish.max_sandboxes > kTokenSandboxesMax) {
    return bad_field("max_sandboxes",
                     fmt::format("max_sandboxes: {} is out of range: want 1 to {}, or 0 for the "
                                 "server's own limit",
                                 wish.max_sandboxes, kTokenSandboxesMax));
  }
  return wish.taken_over.empty() ? Result<void>() : check_taken_over(wish.taken_over);
}

}  // namespace

std::optional<Credential> parse_credential(std::string_view text) noexcept {
  constexpr std::size_t kLength = kTokenPrefix.size() + kTokenIdLength + 1 + kTokenSecretLength;
  if (text.size() != kLength || !text.starts_with(kTokenPrefix)) return std::nullopt;
  text.remove_prefix(kTokenPrefix.size());
  const Credential credential{text.substr(0, kTokenIdLength), text.substr(kTokenIdLength + 1)};
  if (text[kTokenIdLength] != '_' || !is_base32(credential.id) || !is_base32(credential.secret))
    return std::nullopt;
  return credential;
}

std::string base32(std::span<const std::byte> bytes, std::size_t length) {
  std::string text;
  std::uint32_t buffer = 0;
  unsigned bits = 0;
  for (const std::byte byte : bytes) {
    buffer = (buffer << 8U) | std::to_integer<std::uint32_t>(byte);
    for (bits += 8; bits >= 5; bits -= 5) text.push_back(kAlphabet[(buffer >> (bits - 5)) & 31U]);
  }
  if (bits > 0) text.push_back(kAlphabet[(buffer << (5 - bits)) & 31U]);
  CAISSON_ASSERT(text.size() >= length);
  text.resize(length);
  return text;
}

Result<void> check_tenant(std::string_view tenant) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  if (!tenant.empty() && tenant.size() <= kTenantBytesMax &&
      tenant.find_first_not_of(kAllowed) == std::string_view::npos)
    return {};
  return bad_field("tenant", fmt::format("tenant: want 1 to {} characters of a-z, 0-9, '-', '_' "
                                         "and '.', got {} characters",
                                         kTenantBytesMax, tenant.size()));
}

std::optional<std::string> taken_over_id(std::string_view text) {
  const auto is_printable = [](char letter) { return letter > ' ' && letter < 0x7F; };
  if (text.size() < kTakenOverBytesMin || text.size() > kCredentialBytesMax ||
      !std::ranges::all_of(text, is_printable))
    return std::nullopt;
  const store::Digest digest = store::sha256(std::string(kTakenOverSalt) + std::string(text));
  return base32(std::as_bytes(std::span(digest)), kTokenIdLength);
}

Result<NewToken> make_token_at(const TokenWish& wish, store::WallTime now) {
  TRY(check_wish(wish));
  NewToken made;
  if (wish.taken_over.empty()) {
    TRY(make_secret(made));
  } else {
    // Who brings it has it: it is not shown again.
    made.record.id = taken_over_id(wish.taken_over).value();
    made.record.sha256 = store::to_hex(store::sha256(wish.taken_over));
  }
  made.record.tenant = wish.tenant;
  made.record.label = wish.label;
  made.record.scopes = wish.scopes;
  made.record.created = now;
  if (wish.expires_seconds)
    made.record.expires = now + static_cast<store::WallTime>(*wish.expires_seconds * 1e6);
  made.record.max_sandboxes = wish.max_sandboxes;
  return made;
}

Result<NewToken> make_token(const TokenWish& wish) {
  return make_token_at(wish, store::wall_now());
}

Result<std::uint8_t> parse_scopes(std::string_view comma_separated) {
  unsigned scopes = 0;
  for (std::string_view rest = comma_separated;;) {
    const std::size_t end = rest.find(',');
    std::string_view word = rest.substr(0, end);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    const auto known = std::ranges::find(kScopes, word, &ScopeName::name);
    if (known == kScopes.end()) {
      return bad_field("scopes", fmt::format("scopes: '{}' is not a scope: want one or more of "
                                             "admin, create, use, read, separated by commas",
                                             word.substr(0, 32)));
    }
    scopes |= static_cast<unsigned>(known->scope);
    if (end == std::string_view::npos) return static_cast<std::uint8_t>(scopes);
    rest.remove_prefix(end + 1);
  }
}

std::string scopes_text(std::uint8_t scopes) {
  std::string text;
  for (const ScopeName& known : kScopes) {
    if ((scopes & static_cast<unsigned>(known.scope)) == 0) continue;
    if (!text.empty()) text.push_back(',');
    text += known.name;
  }
  return text;
}

}  // namespace caisson::control
