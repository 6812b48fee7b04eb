#include "control/vault.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/base64.h"
#include "egress/credentials/jwt.h"
#include "egress/credentials/seal.h"
#include "egress/credentials/secret_file.h"

namespace caisson::control {
namespace {

// As text, so that an operator may write one himself; of the strength of a seal's key.
Result<egress::Secret> made_key(const std::string& path) {
  const egress::Secret random = TRY(egress::new_seal_key());
  std::string text = to_base64(random.expose());
  const auto written = egress::write_private(path, text + "\n", egress::Replace::No);
  std::ranges::fill(text, '\0');
  // Somebody else's is as good.
  if (!written && written.error().code != Errc::AlreadyExists)
    return std::unexpected(written.error());
  return egress::read_key_text(path, egress::kSealKeyBytes);
}

Result<egress::Secret> key_or_new(const std::string& path) {
  auto key = egress::read_key_text(path, egress::kSealKeyBytes);
  if (key || key.error().code != Errc::NotFound) return key;
  return made_key(path);
}

}  // namespace

Result<std::shared_ptr<Vault>> Vault::open(VaultPaths paths) {
  auto box = TRY(egress::SecretBox::open(paths.secrets, paths.secrets_key));
  std::optional<egress::Secret> said;
  if (paths.token_key_text) {
    std::string& text = *paths.token_key_text;
    if (text.size() < egress::kTokenKeyBytesMin) {
      return failure(Errc::InvalidArgument,
                     fmt::format("the key that signs proxy tokens has {} bytes: want at least {}, "
                                 "as openssl rand -hex 32 prints",
                                 text.size(), egress::kTokenKeyBytesMin));
    }
    said = TRY(egress::Secret::copy_of(text));
    std::ranges::fill(text, '\0');
    paths.token_key_text.reset();
  }
  std::shared_ptr<Vault> vault(new Vault(std::move(paths), std::move(box)));
  vault->token_key_ = std::move(said);
  return vault;
}

Result<void> Vault::put(const std::string& name, std::string value) {
  const auto secret = egress::Secret::copy_of(value);
  std::ranges::fill(value, '\0');
  if (!secret) return std::unexpected(secret.error());
  return box_.put(name, *secret);
}

Result<void> Vault::remove(const std::string& name) { return box_.remove(name); }

Result<const egress::Secret*> Vault::authority_key() {
  if (!authority_key_) {
    const egress::Secret text = TRY(key_or_new(paths_.authority_key));
    // A seal's key has one length; what an operator wrote may be longer.
    egress::Secret key = TRY(egress::Secret::of_size(egress::kSealKeyBytes));
    const auto raw = from_base64(text.expose());
    if (!raw || raw->size() != egress::kSealKeyBytes) {
      return failure(Errc::InvalidArgument,
                     paths_.authority_key +
                         ": want 32 random bytes in base64; remove the file, "
                         "and a new one is made");
    }
    std::ranges::copy(*raw, key.fill().begin());
    authority_key_ = std::move(key);
  }
  return &*authority_key_;
}

Result<const egress::Secret*> Vault::token_key() {
  if (!token_key_) token_key_ = TRY(key_or_new(paths_.token_key));
  return &*token_key_;
}

Result<std::string> Vault::seal(const std::string& certificate, const egress::Secret& key) {
  const egress::Secret* sealer = TRY(authority_key());
  return to_base64(TRY(egress::seal(*sealer, certificate, key)));
}

Result<egress::Secret> Vault::unseal(const std::string& certificate, std::string_view sealed) {
  const egress::Secret* sealer = TRY(authority_key());
  const auto bytes = from_base64(sealed);
  if (!bytes) return failure(Errc::Denied, "the sandbox's authority: its record is damaged");
  return egress::unseal(*sealer, certificate, *bytes);
}

}  // namespace caisson::control
