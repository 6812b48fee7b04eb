// doors/grpc/fields.h — how many fields a message has, before it is parsed. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace caisson::grpc {

// Two bytes of a message can be a field, and one that nobody knows takes eighty when it is parsed:
// a message of 4 MiB would need 160. No message of ours has more than this.
inline constexpr std::size_t kFieldsMax = 32768;

// Those inside groups included; `most` + 1 when there are more. What cannot be read ends the count:
// the parser says what is wrong with it.
[[nodiscard]] std::size_t count_fields(std::string_view message, std::size_t most) noexcept;

}  // namespace caisson::grpc
