// guest/layer/parts.h — layers as they lie on disk: a numbered row of folders, each with its parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::layer {

inline constexpr std::size_t kPartsMax = 64;  // of one layer

// `folder` is "in", "a.in" or "b.in"; the topmost comes first.
[[nodiscard]] Result<std::vector<UniqueFd>> open_layers(int layer_root, const std::string& folder,
                                                        std::uint32_t count);

// The parts that these layers have, sorted. Other names are left alone.
[[nodiscard]] Result<std::vector<std::string>> list_parts(const std::vector<UniqueFd>& layers);

// "usr" of "systemusr"; "" of the root's part and of what is no part.
[[nodiscard]] std::string_view top_of_part(std::string_view part) noexcept;
[[nodiscard]] std::string part_of_top(std::string_view top);

}  // namespace caisson::layer
