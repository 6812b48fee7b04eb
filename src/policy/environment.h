// policy/environment.h — which variables of the host's environment a guest may see.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/capability.h"

namespace caisson::policy {

// Names that never pass, allowlisted or not, in any case: *_KEY *_SECRET *_TOKEN *_PASSWORD
// *_CREDENTIAL AWS_* AZURE_* GCP_* OPENAI_* ANTHROPIC_*.
[[nodiscard]] bool is_secret_name(std::string_view name);

// The entries of `host_env` ("NAME=value") that pass, in their order. Without the permission
// read_env none does.
[[nodiscard]] std::vector<std::string> filter_environment(const std::vector<std::string>& host_env,
                                                          const CapabilityDeclaration& capability);

}  // namespace caisson::policy
