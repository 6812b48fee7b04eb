#include "egress/credentials/redactor.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>

#include "base/base64.h"

namespace caisson::egress {

namespace {

// A base64 text that is shorter is part of too many others.
constexpr std::size_t kLettersMin = 8;

// The letters of base64 that only the secret decides, when `before` bytes of something else stand
// in front of it: "user:SECRET" is encoded as one.
Result<Secret> letters_of(const Secret& secret, std::size_t before, bool url) {
  std::string plain(before, '\0');
  plain += secret.expose();
  std::string letters = to_base64(plain);
  OPENSSL_cleanse(plain.data(), plain.size());
  if (url) {
    std::ranges::replace(letters, '+', '-');
    std::ranges::replace(letters, '/', '_');
  }
  const std::size_t first = (before * 8 + 5) / 6;
  const std::size_t last = (before + secret.size()) * 8 / 6;
  Result<Secret> out = Secret::copy_of(
      last > first ? std::string_view(letters).substr(first, last - first) : std::string_view());
  OPENSSL_cleanse(letters.data(), letters.size());
  return out;
}

}  // namespace

class RedactionPatterns {
 public:
  struct Match {
    std::size_t size = 0;
    const std::string* name = nullptr;
  };

  Result<void> add(const NamedSecret& secret) {
    if (secret.value->size() < kRedactedBytesMin) return {};
    Secret plain = TRY(secret.value->clone());
    add_pattern(secret.name, std::move(plain), kRedactedBytesMin);
    for (const bool url : {false, true}) {
      for (std::size_t before = 0; before < 3; ++before) {
        Secret letters = TRY(letters_of(*secret.value, before, url));
        add_pattern(secret.name, std::move(letters), kLettersMin);
      }
    }
    return {};
  }

  [[nodiscard]] bool empty() const noexcept { return patterns_.empty(); }
  [[nodiscard]] bool begins(char c) const noexcept { return !of_byte(c).empty(); }

  // The longest pattern at the beginning of `text`.
  [[nodiscard]] Match find(std::string_view text) const noexcept {
    Match best;
    for (const std::size_t i : of_byte(text.front())) {
      const std::string_view pattern = patterns_[i].text.expose();
      if (pattern.size() > best.size && text.starts_with(pattern))
        best = {pattern.size(), &patterns_[i].name};
    }
    return best;
  }

  // Could more bytes make `text` a longer match than it is?
  [[nodiscard]] bool may_grow(std::string_view text) const noexcept {
    return std::ranges::any_of(of_byte(text.front()), [&](std::size_t i) {
      const std::string_view pattern = patterns_[i].text.expose();
      return pattern.size() > text.size() && pattern.starts_with(text);
    });
  }

 private:
  struct Pattern {
    std::string name;
    Secret text;
  };

  void add_pattern(const std::string& name, Secret text, std::size_t size_min) {
    if (text.size() < size_min) return;
    const auto same = [&](const Pattern& one) { return one.text.expose() == text.expose(); };
    if (std::ranges::any_of(patterns_, same)) return;
    const auto first = static_cast<unsigned char>(text.expose().front());
    by_byte_[first].push_back(patterns_.size());
    patterns_.push_back({name, std::move(text)});
  }

  [[nodiscard]] const std::vector<std::size_t>& of_byte(char c) const noexcept {
    return by_byte_[static_cast<unsigned char>(c)];
  }

  std::vector<Pattern> patterns_;
  std::array<std::vector<std::size_t>, 256> by_byte_;
};

namespace {

enum class More : std::uint8_t { MayCome, Never };

struct Scrubbed {
  std::string text;
  std::size_t used = 0;  // the rest waits for more
};

Scrubbed scrub_piece(const RedactionPatterns& patterns, std::string_view text, More more) {
  Scrubbed out;
  std::size_t plain = 0;  // where what passes as it is begins
  std::size_t at = 0;
  const auto pass = [&] { out.text += text.substr(plain, at - plain); };
  while (at < text.size()) {
    if (!patterns.begins(text[at])) {
      ++at;
      continue;
    }
    const std::string_view rest = text.substr(at);
    if (more == More::MayCome && patterns.may_grow(rest)) break;
    const RedactionPatterns::Match match = patterns.find(rest);
    if (match.size == 0) {
      ++at;
      continue;
    }
    pass();
    out.text += fmt::format("[secret {}]", *match.name);
    at += match.size;
    plain = at;
  }
  pass();
  out.used = at;
  return out;
}

}  // namespace

Result<Redactor> Redactor::make(std::span<const NamedSecret> secrets) {
  if (secrets.size() > kRedactedSecretsMax) {
    return failure(Errc::Exhausted, fmt::format("{} secrets are too many to look for, at most {}",
                                                secrets.size(), kRedactedSecretsMax));
  }
  auto patterns = std::make_shared<RedactionPatterns>();
  for (const NamedSecret& secret : secrets) TRY(patterns->add(secret));
  Redactor out;
  if (!patterns->empty()) out.patterns_ = std::move(patterns);
  return out;
}

std::string Redactor::scrub(std::string_view text) const {
  if (!patterns_) return std::string(text);
  return scrub_piece(*patterns_, text, More::Never).text;
}

std::string Redactor::Stream::feed(std::string_view piece) {
  if (!patterns_) return std::string(piece);
  if (held_.empty()) {
    Scrubbed out = scrub_piece(*patterns_, piece, More::MayCome);
    held_ = piece.substr(out.used);
    return std::move(out.text);
  }
  held_ += piece;
  Scrubbed out = scrub_piece(*patterns_, held_, More::MayCome);
  held_.erase(0, out.used);
  return std::move(out.text);
}

std::string Redactor::Stream::finish() {
  if (!patterns_) return {};
  std::string out = scrub_piece(*patterns_, held_, More::Never).text;
  held_.clear();
  return out;
}

}  // namespace caisson::egress
