// policy/yaml_tree.h — YAML text as a small tree in which every node knows its line.
// Stricter than YAML, because a policy must not mean two things: one document, no anchors, aliases,
// tags or directives, no key twice in a mapping, bounded depth and size. yaml-cpp reads the text
// and throws; nothing of that passes this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace caisson::policy {

inline constexpr std::size_t kCapabilityBytesMax = std::size_t{64} * 1024;
inline constexpr std::size_t kYamlDepthMax = 8;
inline constexpr std::size_t kYamlKeysMax = 64;  // of one mapping

struct Position {
  int line = 1;
  int column = 1;
};

// InvalidArgument: "line 4, column 3: …".
[[nodiscard]] std::unexpected<Error> invalid_at(Position at, std::string_view message);

struct YamlKey {
  std::string name;
  Position at;
};

struct YamlNode {
  enum class Kind : std::uint8_t { Null, Scalar, List, Mapping };

  Kind kind = Kind::Null;
  Position at;
  // A scalar without quotes: only such a one can be a number. Or a null that is written as a word,
  // and not merely a place where nothing stands.
  bool plain = false;
  std::string text;             // of a scalar
  std::vector<YamlKey> keys;    // of a mapping; keys[i] names items[i]
  std::vector<YamlNode> items;  // of a list or a mapping
};

// "a list", "null", …: for messages.
[[nodiscard]] std::string_view describe(const YamlNode& node) noexcept;

// No document at all is a Null node.
[[nodiscard]] Result<YamlNode> parse_yaml(std::string_view text);

}  // namespace caisson::policy
