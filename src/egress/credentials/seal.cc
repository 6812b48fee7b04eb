#include "egress/credentials/seal.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <memory>

#include "policy/wording.h"

namespace caisson::egress {

namespace {

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const noexcept { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

// The version is part of what is authenticated: a later format cannot be passed off as this one.
std::string bound_text(std::string_view name) { return "caisson secret 1\n" + std::string(name); }

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

int size_of(std::string_view text) { return static_cast<int>(text.size()); }

std::unexpected<Error> broken() {
  return failure(Errc::Internal, "AES-256-GCM is not to be had from OpenSSL");
}

}  // namespace

Result<Secret> new_seal_key() {
  Secret key = TRY(Secret::of_size(kSealKeyBytes));
  auto* out = reinterpret_cast<unsigned char*>(key.fill().data());
  if (RAND_priv_bytes(out, static_cast<int>(kSealKeyBytes)) != 1)
    return failure(Errc::Internal, "no random bytes for a key");
  return key;
}

Result<std::string> seal(const Secret& key, std::string_view name, const Secret& value) {
  CAISSON_ASSERT(key.size() == kSealKeyBytes);
  std::string out(kSealNonceBytes + value.size() + kSealTagBytes, '\0');
  auto* nonce = reinterpret_cast<unsigned char*>(out.data());
  unsigned char* text = nonce + kSealNonceBytes;
  unsigned char* tag = text + value.size();
  const std::string bound = bound_text(name);
  const Cipher cipher(EVP_CIPHER_CTX_new());
  int used = 0;
  int last = 0;
  const bool done =
      cipher && RAND_bytes(nonce, static_cast<int>(kSealNonceBytes)) == 1 &&
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes(key.expose()), nonce) ==
          1 &&
      EVP_EncryptUpdate(cipher.get(), nullptr, &used, bytes(bound), size_of(bound)) == 1 &&
      EVP_EncryptUpdate(cipher.get(), text, &used, bytes(value.expose()),
                        size_of(value.expose())) == 1 &&
      EVP_EncryptFinal_ex(cipher.get(), text + used, &last) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(kSealTagBytes),
                          tag) == 1;
  if (!done) return broken();
  return out;
}

Result<Secret> unseal(const Secret& key, std::string_view name, std::string_view sealed) {
  CAISSON_ASSERT(key.size() == kSealKeyBytes);
  const auto refused = [name] {
    return failure(Errc::Denied,
                   fmt::format("the secret {} does not open: another key, or the file was changed",
                               policy::in_quotes(name)));
  };
  if (sealed.size() < kSealNonceBytes + kSealTagBytes) return refused();
  const std::string_view nonce = sealed.substr(0, kSealNonceBytes);
  std::string tag(sealed.substr(sealed.size() - kSealTagBytes));
  const std::string_view text =
      sealed.substr(kSealNonceBytes, sealed.size() - kSealNonceBytes - kSealTagBytes);
  Secret value = TRY(Secret::of_size(text.size()));
  auto* out = reinterpret_cast<unsigned char*>(value.fill().data());
  const std::string bound = bound_text(name);
  const Cipher cipher(EVP_CIPHER_CTX_new());
  if (!cipher) return broken();
  int used = 0;
  int last = 0;
  const bool opened =
      EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes(key.expose()),
                         bytes(nonce)) == 1 &&
      EVP_DecryptUpdate(cipher.get(), nullptr, &used, bytes(bound), size_of(bound)) == 1 &&
      EVP_DecryptUpdate(cipher.get(), out, &used, bytes(text), size_of(text)) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(kSealTagBytes),
                          tag.data()) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), out + used, &last) == 1;
  if (!opened) return refused();
  return value;
}

}  // namespace caisson::egress
