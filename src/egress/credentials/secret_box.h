// egress/credentials/secret_box.h — secrets at rest: a file of entries, each encrypted by
// AES-256-GCM under a key that stands in a file of its own. The name is bound to its entry, so
// nobody who can write the file can make one secret pass for another. In memory they are Secrets.
//
// Several processes may use one box: a change is made to what the file holds at that moment, under
// a lock, and is there whole or not at all.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "egress/credentials/secret.h"

namespace caisson::egress {

inline constexpr std::size_t kSecretsMax = 128;
// Less than a Secret can hold, so that its base64 fits one too.
inline constexpr std::size_t kStoredSecretBytesMax = std::size_t{4} * 1024;
static_assert(kStoredSecretBytesMax * 3 / 2 <= kSecretBytesMax);

class SecretBox {
 public:
  // No file yet is an empty box. The key is made with the first secret; a file of secrets without
  // its key is an error, as a new key could not open them.
  [[nodiscard]] static Result<SecretBox> open(std::string secrets_path, std::string key_path);

  SecretBox(SecretBox&&) noexcept = default;
  SecretBox& operator=(SecretBox&&) noexcept = default;
  ~SecretBox() = default;

  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] const Secret* find(std::string_view name) const noexcept;

  // Names as in rules; a value is not empty. Replaces what has that name.
  [[nodiscard]] Result<void> put(std::string_view name, const Secret& value);
  [[nodiscard]] Result<void> remove(std::string_view name);  // NotFound
  // What the file holds now; on failure nothing changes.
  [[nodiscard]] Result<void> reload();

 private:
  struct Entry {
    std::string sealed;  // nonce, ciphertext and tag, in base64
    Secret value;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  SecretBox(std::string secrets_path, std::string key_path)
      : secrets_path_(std::move(secrets_path)), key_path_(std::move(key_path)) {}

  [[nodiscard]] Result<Entries> load() const;
  [[nodiscard]] Result<Secret> key() const;
  [[nodiscard]] Result<Secret> key_or_new() const;
  [[nodiscard]] Result<void> store(Entries entries);

  std::string secrets_path_;
  std::string key_path_;
  Entries entries_;
};

}  // namespace caisson::egress
