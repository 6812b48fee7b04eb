// control/records.h — what a new server must know of a sandbox that an older one made, as the JSON
// of its record. Limits and walls are the launcher's to tell; this is the rest.
#pragma once

#include <string>
#include <string_view>

#include "control/sandbox_spec.h"

namespace caisson::control {

struct KeptSpec {
  std::string name;
  std::string profile;
  std::string image = "host";
  std::vector<std::string> tools;
  std::map<std::string, std::string> labels;
  std::vector<std::string> environment;
  std::string workdir;
  std::optional<double> idle_seconds;
  engine::RootMode root = engine::RootMode::ReadOnly;
  std::uint32_t uid = kUidDefault;

  friend bool operator==(const KeptSpec&, const KeptSpec&) = default;
};

[[nodiscard]] std::string to_json(const KeptSpec& spec);
[[nodiscard]] Result<KeptSpec> parse_kept_spec(std::string_view text);

}  // namespace caisson::control
