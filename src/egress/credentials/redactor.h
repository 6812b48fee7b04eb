// egress/credentials/redactor.h — takes secrets out of a text: each occurrence, as it is or inside
// base64, becomes "[secret NAME]". It stops accidents such as a service that echoes the request,
// and is no wall: a service that wants to tell a guest its secret finds another spelling.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "egress/credentials/secret.h"

namespace caisson::egress {

inline constexpr std::size_t kRedactedSecretsMax = 64;
// A shorter one is found everywhere: replacing it would spoil texts that do not hold it.
inline constexpr std::size_t kRedactedBytesMin = 6;

struct NamedSecret {
  std::string name;
  const Secret* value = nullptr;  // copied, into locked memory
};

class Redactor {
 public:
  Redactor() = default;  // knows no secret
  [[nodiscard]] static Result<Redactor> make(std::span<const NamedSecret> secrets);

  [[nodiscard]] std::string scrub(std::string_view text) const;
  [[nodiscard]] bool empty() const noexcept { return !patterns_; }

  // A text in pieces. What could be the beginning of a secret is held back until it is known, at
  // most the length of the longest one; everything else passes at once.
  class Stream {
   public:
    explicit Stream(const Redactor& redactor) : patterns_(redactor.patterns_) {}
    [[nodiscard]] std::string feed(std::string_view piece);
    [[nodiscard]] std::string finish();

   private:
    std::shared_ptr<const class RedactionPatterns> patterns_;
    std::string held_;
  };

 private:
  std::shared_ptr<const class RedactionPatterns> patterns_;
};

}  // namespace caisson::egress
