// image/credentials.h — who we are for a registry, from the text of a docker-style config.json:
// {"auths": {"registry.example:5000": {"auth": "base64 of user:password"}}}. Each entry is for its
// own registry and for no other.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::image {

inline constexpr std::size_t kCredentialsBytesMax = 256UL * 1024;
inline constexpr std::size_t kCredentialsMax = 256;

struct Login {
  std::string user;
  std::string password;
  std::string identity_token;  // instead of a password, for the token service only

  [[nodiscard]] bool empty() const noexcept {
    return user.empty() && password.empty() && identity_token.empty();
  }
};

class Credentials {
 public:
  Credentials() = default;
  [[nodiscard]] static Result<Credentials> parse(std::string_view config_json);
  [[nodiscard]] Result<void> add(std::string_view registry, Login login);
  // An empty one for a registry that has none.
  [[nodiscard]] Login find(std::string_view registry) const;
  [[nodiscard]] std::size_t size() const noexcept { return logins_.size(); }

 private:
  std::map<std::string, Login, std::less<>> logins_;
};

}  // namespace caisson::image
