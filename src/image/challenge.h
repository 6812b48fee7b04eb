// image/challenge.h — what a registry answers to someone it does not know (WWW-Authenticate), and
// the token that its token service gives. Hostile texts, bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace caisson::image {

inline constexpr std::size_t kChallengeBytesMax = 4096;
inline constexpr std::size_t kChallengeParametersMax = 16;

struct Challenge {
  enum class Scheme : std::uint8_t { Basic, Bearer };
  Scheme scheme = Scheme::Basic;
  std::string realm;  // of Bearer: the URL of the token service
  std::string service;
};

// The first of the fields that we can answer; Bearer before Basic.
[[nodiscard]] Result<Challenge> parse_challenge(const std::vector<std::string>& fields);

struct Token {
  std::string text;
  seconds lifetime{60};
};
[[nodiscard]] Result<Token> parse_token(std::string_view body);

}  // namespace caisson::image
