// image/digest.h — what content is called: "sha256:<64 hex>" or "sha512:<128 hex>", and nothing
// else. A digest that exists is well-formed, so its text is fit for a file name and for a URL.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::image {

enum class Algorithm : std::uint8_t { Sha256, Sha512 };
[[nodiscard]] std::string_view to_string(Algorithm algorithm) noexcept;

class Digest {
 public:
  Digest() = default;  // none yet: empty() is true, and the text is empty
  [[nodiscard]] static Result<Digest> parse(std::string_view text);

  [[nodiscard]] bool empty() const noexcept { return text_.empty(); }
  [[nodiscard]] const std::string& str() const noexcept { return text_; }
  [[nodiscard]] Algorithm algorithm() const noexcept;
  [[nodiscard]] std::string_view hex() const noexcept;

  friend auto operator<=>(const Digest&, const Digest&) = default;

 private:
  friend class Hasher;
  explicit Digest(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// Bytes in, one digest out, once.
class Hasher {
 public:
  explicit Hasher(Algorithm algorithm = Algorithm::Sha256);
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  [[nodiscard]] Digest finish();
  // The digest so far; more bytes may follow.
  [[nodiscard]] Digest peek() const;

 private:
  struct Context;
  Algorithm algorithm_;
  std::unique_ptr<Context> context_;
};

[[nodiscard]] Digest digest_of(std::string_view text, Algorithm algorithm = Algorithm::Sha256);

}  // namespace caisson::image
