// policy/capability_parser.h — a capability file becomes a valid CapabilityDeclaration, or one line
// that says what is wrong and where: `capability validation error: line 4, column 3: unknown field
// "max_memory" in resource_limits; known fields: …`.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/capability.h"

namespace caisson::policy {

class CapabilityParser {
 public:
  // An empty text is the declaration with all defaults.
  [[nodiscard]] static Result<CapabilityDeclaration> from_string(std::string_view text);

  // Reads a regular file of at most kCapabilityBytesMax; a fifo or a device could keep the caller
  // waiting.
  [[nodiscard]] static Result<CapabilityDeclaration> from_file(const std::string& path);
};

}  // namespace caisson::policy
