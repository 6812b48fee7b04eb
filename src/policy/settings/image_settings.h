// policy/settings/image_settings.h — where images come from, and how much of them is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

inline constexpr std::size_t kRegistriesMax = 64;
inline constexpr std::size_t kMirrorsMax = 8;  // of one registry
inline constexpr std::size_t kRegistryBytesMax = 300;
inline constexpr std::int64_t kLayerBytesMin = 1LL << 20U;
inline constexpr std::int64_t kLayerBytesMost = 1LL << 44U;

using RegistryMirrors = std::map<std::string, std::vector<std::string>>;

struct ImageSettings {
  RegistryMirrors mirrors;            // by registry, "docker.io": tried in this order, then itself
  std::vector<std::string> insecure;  // "host[:port]" that is spoken to without TLS
  std::string credentials_file;       // as docker's config.json; empty: none
  bool allow_private = false;         // registries at private addresses
  bool pull_on_create = true;         // a sandbox whose image is not here pulls it
  std::int64_t layer_bytes_max = 16LL << 30U;  // unpacked

  friend bool operator==(const ImageSettings&, const ImageSettings&) = default;
};

[[nodiscard]] Result<RegistryMirrors> read_mirrors(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<std::vector<std::string>> read_registries(const YamlNode& node,
                                                               std::string_view path);
// As a YAML value, four spaces in.
[[nodiscard]] std::string print_mirrors(const RegistryMirrors& mirrors);

}  // namespace caisson::policy
