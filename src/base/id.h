// base/id.h — SandboxId: 128 random bits as 26 characters of lower-case base32.
// Fit for a DNS label, a cgroup, a file and a host name. Doors map their own forms from it.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson {

class SandboxId {
 public:
  static constexpr std::size_t kLength = 26;

  [[nodiscard]] static Result<SandboxId> random();
  [[nodiscard]] static Result<SandboxId> parse(std::string_view text);

  [[nodiscard]] const std::string& str() const noexcept { return text_; }

  friend auto operator<=>(const SandboxId&, const SandboxId&) = default;

 private:
  explicit SandboxId(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace caisson
