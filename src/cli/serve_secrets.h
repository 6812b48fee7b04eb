// cli/serve_secrets.h — variables that a container's manager hands over as files: one for each, by
// its name, as services of that kind read them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace caisson::cli {

inline constexpr const char* kSecretsFolder = "/run/secrets";

// NAME=value for each file of `folder` that is called DAIV_SANDBOX_…, in any case, and that no
// variable of `environment` names already.
[[nodiscard]] std::vector<std::string> handed_secrets(const std::string& folder,
                                                      std::span<const std::string> environment);

}  // namespace caisson::cli
