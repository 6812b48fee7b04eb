#include "image/credentials.h"

#include <fmt/core.h>

#include "base/base64.h"
#include "image/json.h"
#include "image/reference.h"

namespace caisson::image {

namespace json = boost::json;

namespace {

constexpr std::size_t kSecretBytesMax = 64UL * 1024;

// Docker writes "https://index.docker.io/v1/" and also plain hosts.
std::string_view host_of(std::string_view key) {
  if (const std::size_t scheme = key.find("://"); scheme != key.npos) key.remove_prefix(scheme + 3);
  return key.substr(0, key.find('/'));
}

bool is_plain(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == text.npos;
}

Result<Login> read_login(const JsonReader& reader) {
  Login out;
  const std::string auth = TRY(reader.text("auth", kSecretBytesMax));
  out.user = TRY(reader.text("username", kSecretBytesMax));
  out.password = TRY(reader.text("password", kSecretBytesMax));
  out.identity_token = TRY(reader.text("identitytoken", kSecretBytesMax));
  if (!auth.empty()) {
    const auto plain = from_base64(auth);
    const std::size_t colon = plain ? plain->find(':') : std::string::npos;
    if (colon == std::string::npos) {
      return bad_document(reader.place("auth"), "is not the base64 of user:password");
    }
    out.user = plain->substr(0, colon);
    out.password = plain->substr(colon + 1);
    // Some tools leave a NUL behind the password.
    while (out.password.ends_with('\0')) out.password.pop_back();
  }
  return out;
}

}  // namespace

Result<void> Credentials::add(std::string_view registry, Login login) {
  std::string name = TRY(canonical_registry(registry));
  if (!is_plain(login.user) || !is_plain(login.password) || !is_plain(login.identity_token) ||
      login.user.find(':') != std::string::npos) {
    return bad_field("credentials", fmt::format("those for {} have a line break or a NUL in them, "
                                                "or a ':' in the user's name",
                                                name));
  }
  if (logins_.size() >= kCredentialsMax && !logins_.contains(name)) {
    return bad_field("credentials",
                     fmt::format("they are for more than {} registries", kCredentialsMax));
  }
  logins_[std::move(name)] = std::move(login);
  return {};
}

Result<Credentials> Credentials::parse(std::string_view config_json) {
  auto object = parse_json_object(config_json, kCredentialsBytesMax, "the docker config");
  if (!object) return bad_field("credentials", object.error().message);
  const JsonReader reader(*object, "the docker config:");
  const json::object* auths = TRY(reader.object("auths"));
  Credentials out;
  if (auths == nullptr) return out;
  const JsonReader entries(*auths, reader.place("auths"));
  for (const auto& entry : *auths) {
    const std::string_view key(entry.key().data(), entry.key().size());
    const json::object* one = TRY(entries.object(key));
    if (one == nullptr) continue;
    Login login = TRY(read_login(JsonReader(*one, entries.place(key))));
    // An empty entry says that the secret is with a helper program, which we do not run.
    if (login.empty()) continue;
    TRY(out.add(host_of(key), std::move(login)));
  }
  return out;
}

Login Credentials::find(std::string_view registry) const {
  const auto found = logins_.find(registry);
  return found == logins_.end() ? Login() : found->second;
}

}  // namespace caisson::image
