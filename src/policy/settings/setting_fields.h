// policy/settings/setting_fields.h — a mapping inside one setting: a table names its fields and the
// function that reads each, and a name that is not in the table is an error.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/settings/setting_value.h"
#include "policy/wording.h"
#include "policy/yaml_tree.h"

namespace caisson::policy::setting {

template <class T>
struct Field {
  std::string_view name;
  Result<void> (*read)(const YamlNode& node, std::string_view path, T& out);
};

template <class T, std::size_t N>
Result<void> read_fields(const YamlNode& node, std::string_view path,
                         const std::array<Field<T>, N>& fields, T& out) {
  if (node.kind != YamlNode::Kind::Mapping) return wrong_type(node, path, "a mapping");
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const YamlKey& key = node.keys[i];
    const auto found = std::ranges::find(fields, std::string_view(key.name), &Field<T>::name);
    if (found == fields.end()) {
      std::string known;
      for (const auto& field : fields)
        known += (known.empty() ? "" : ", ") + std::string(field.name);
      YamlNode at;
      at.at = key.at;
      return wrong(at, path,
                   fmt::format("unknown field {}; known fields: {}", in_quotes(key.name), known));
    }
    const std::string full = fmt::format("{}.{}", path, key.name);
    TRY(found->read(node.items[i], full, out));
  }
  return {};
}

}  // namespace caisson::policy::setting
