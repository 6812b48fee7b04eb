// http/hop_fields.h — fields that are about one connection and end at it: a proxy drops them. The
// framing of a body is among them, because whoever sends a body on frames it anew.
#pragma once

#include <string_view>
#include <vector>

#include "http/field.h"

namespace caisson::http {

class HopFields {
 public:
  // Also those that the sender names in Connection. `fields` outlives us.
  explicit HopFields(const std::vector<Field>& fields);
  [[nodiscard]] bool drops(std::string_view name) const noexcept;

 private:
  std::vector<std::string_view> named_;
};

}  // namespace caisson::http
