// control/vault.h — what the server holds and no guest ever sees: secrets by name, the key under
// which the authorities of living sandboxes are kept, and the key of proxy tokens. Files of the
// server alone; in memory they are Secrets. Used on the one I/O thread: a change writes a few
// kilobytes, and only an admin makes one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "egress/credentials/secret.h"
#include "egress/credentials/secret_box.h"

namespace caisson::control {

struct VaultPaths {
  std::string secrets;
  std::string secrets_key;
  std::string authority_key;  // made when it is missing
  std::string token_key;      // made when it is missing
  // The key of tokens as an operator says it, in the place of that file: the bytes of the text.
  std::optional<std::string> token_key_text{};
};

class Vault {
 public:
  // A file that others can read, or that cannot be opened with its key, is refused here and not
  // first when somebody needs it.
  [[nodiscard]] static Result<std::shared_ptr<Vault>> open(VaultPaths paths);

  [[nodiscard]] std::vector<std::string> names() const { return box_.names(); }
  [[nodiscard]] const egress::Secret* find(std::string_view name) const noexcept {
    return box_.find(name);
  }
  // The value is overwritten, whatever becomes of it.
  [[nodiscard]] Result<void> put(const std::string& name, std::string value);
  [[nodiscard]] Result<void> remove(const std::string& name);

  // An authority's key, bound to its certificate, as text for a record.
  [[nodiscard]] Result<std::string> seal(const std::string& certificate, const egress::Secret& key);
  [[nodiscard]] Result<egress::Secret> unseal(const std::string& certificate,
                                              std::string_view sealed);
  [[nodiscard]] Result<const egress::Secret*> token_key();

 private:
  Vault(VaultPaths paths, egress::SecretBox box) : paths_(std::move(paths)), box_(std::move(box)) {}
  [[nodiscard]] Result<const egress::Secret*> authority_key();

  VaultPaths paths_;
  egress::SecretBox box_;
  std::optional<egress::Secret> authority_key_;
  std::optional<egress::Secret> token_key_;
};

}  // namespace caisson::control
