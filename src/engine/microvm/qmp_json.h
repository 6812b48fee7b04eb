// engine/microvm/qmp_json.h — one line of a monitor, read strictly: what is needed of an object of
// JSON, without building it. The bytes may come from a guest that has taken its monitor over.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace caisson::engine::microvm {

inline constexpr std::size_t kJsonDepthMax = 16;

// Whether `text` is one whole JSON value, nested no deeper than the limit.
[[nodiscard]] bool is_json(std::string_view text) noexcept;

// The value behind a chain of keys, as it is written; nothing where one is missing. Of a key that
// stands twice the first counts. `text` must be JSON.
[[nodiscard]] std::optional<std::string_view> json_at(std::string_view text,
                                                      std::span<const std::string_view> keys);
[[nodiscard]] inline std::optional<std::string_view> json_at(
    std::string_view text, std::initializer_list<std::string_view> keys) {
  return json_at(text, std::span(keys.begin(), keys.size()));
}

// A string without its quotes; nothing when it is none, or has an escape that we never need.
[[nodiscard]] std::optional<std::string> json_string(std::string_view value);

}  // namespace caisson::engine::microvm
