// policy/describe.h — what `validate` prints about a capability file.
#pragma once

#include <string>
#include <string_view>

#include "policy/capability.h"

namespace caisson::policy {

// "VALID" and an aligned list, each line ended.
[[nodiscard]] std::string describe_text(const CapabilityDeclaration& capability);

// {"valid": true, "capability": {…}}, with the field names of the YAML.
[[nodiscard]] std::string describe_json(const CapabilityDeclaration& capability);

// {"valid": false, "error": "capability validation error: …"}
[[nodiscard]] std::string describe_invalid_json(std::string_view error);

// The capability alone. JSON is YAML, so CapabilityParser reads it back as the same declaration.
[[nodiscard]] std::string capability_json(const CapabilityDeclaration& capability);

}  // namespace caisson::policy
