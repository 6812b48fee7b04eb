// control/blocklist.h — command lines that are refused by their text.
//
// Defence in depth, against accidents and lazy attacks: text can always be spelled in another way,
// so nothing rests on it. All patterns are matched at once in time linear in the text (RE2).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace caisson::control {

inline constexpr std::size_t kPatternsMax = 256;
inline constexpr std::size_t kPatternBytesMax = 1024;

class Blocklist {
 public:
  [[nodiscard]] static Result<Blocklist> compile(const std::vector<std::string>& patterns);
  Blocklist();
  Blocklist(Blocklist&&) noexcept;
  Blocklist& operator=(Blocklist&&) noexcept;
  ~Blocklist();

  // The first pattern that matches, or nothing. A text that cannot be judged is refused too.
  [[nodiscard]] std::optional<std::string> match(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace caisson::control
