#include "egress/gate/injection.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "http/client_link.h"

namespace caisson::egress {

Result<Injection> Injection::make(std::span<const policy::HeaderInjection> wanted,
                                  const FindSecret& find) {
  Injection out;
  if (wanted.empty()) return out;
  std::vector<NamedSecret> named;
  for (const policy::HeaderInjection& one : wanted) {
    const Secret* secret = find ? find(one.secret) : nullptr;
    if (secret == nullptr) {
      return failure(Errc::NotFound,
                     fmt::format("the secret '{}' is not set; see `caisson secret`", one.secret));
    }
    http::Field field{one.header, {}};
    field.value.reserve(one.prefix.size() + secret->size());
    field.value.append(one.prefix).append(secret->expose());
    const bool fits = http::is_field_value(field.value);
    out.fields_.push_back(std::move(field));
    if (!fits) {
      return failure(
          Errc::InvalidArgument,
          fmt::format("the secret '{}' holds bytes that no header can carry", one.secret));
    }
    named.push_back({one.secret, secret});
  }
  out.redactor_ = TRY(Redactor::make(named));
  return out;
}

Injection::~Injection() {
  for (http::Field& field : fields_) wipe(field.value);
}

bool Injection::replaces(std::string_view name) const noexcept {
  return std::ranges::any_of(
      fields_, [&](const http::Field& field) { return http::same_name(field.name, name); });
}

void wipe(std::string& bytes) noexcept {
  ::OPENSSL_cleanse(bytes.data(), bytes.size());
  bytes.clear();
}

}  // namespace caisson::egress
