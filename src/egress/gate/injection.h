// egress/gate/injection.h — the secrets that a rule puts into a request: fields as they leave, and
// what takes them out of the answer again. They exist for one exchange.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "egress/credentials/redactor.h"
#include "egress/credentials/secret.h"
#include "http/http.h"
#include "policy/capability.h"

namespace caisson::egress {

// By name; null when there is none. What it points to stays until the next turn of the loop.
using FindSecret = std::function<const Secret*(std::string_view name)>;

class Injection {
 public:
  // Failed names the secret, and never its value: one that is missing, or that no field can hold.
  [[nodiscard]] static Result<Injection> make(std::span<const policy::HeaderInjection> wanted,
                                              const FindSecret& find);
  Injection() = default;
  Injection(Injection&&) noexcept = default;
  Injection& operator=(Injection&&) noexcept = default;
  ~Injection();

  [[nodiscard]] bool empty() const noexcept { return fields_.empty(); }
  // Is this field one of those that are ours to say? Then the client's own is dropped.
  [[nodiscard]] bool replaces(std::string_view name) const noexcept;
  [[nodiscard]] const std::vector<http::Field>& fields() const noexcept { return fields_; }
  [[nodiscard]] const Redactor& redactor() const noexcept { return redactor_; }

 private:
  std::vector<http::Field> fields_;
  Redactor redactor_;
};

// Overwrites bytes that held a secret.
void wipe(std::string& bytes) noexcept;

}  // namespace caisson::egress
