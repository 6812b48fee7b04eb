// The two layers above the file: variables and flags. Their texts become the nodes that the file
// would have had, and the same table reads them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "policy/settings/setting_keys.h"
#include "policy/settings/setting_value.h"
#include "policy/settings/settings.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

constexpr std::string_view kOurs = "CAISSON_";
constexpr std::string_view kTheirs = "CAGEBOX_";
constexpr std::string_view kDaiv = "DAIV_SANDBOX_";
constexpr std::array<std::string_view, 12> kSections = {
    "SERVER_", "SANDBOX_", "PROFILES_", "AUDIT_",    "LOGGING_",   "AUTH_",
    "EGRESS_", "IMAGES_",  "DAIV_",     "AGENTBOX_", "SANDBOXER_", "TIERS_"};
// Below a section's name, but no setting: where the server's program is, for whoever starts it.
constexpr std::array<std::string_view, 1> kNotSettings = {"CAISSON_SERVER_PROGRAM"};

// server.state_dir → SERVER_STATE_DIR
std::string variable_name(std::string_view path) {
  std::string name;
  for (const char c : path) {
    if (c >= 'a' && c <= 'z') {
      name += static_cast<char>(c - 'a' + 'A');
    } else {
      name += c == '.' ? '_' : c;
    }
  }
  return name;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

YamlNode scalar(std::string_view text) {
  YamlNode node;
  node.kind = YamlNode::Kind::Scalar;
  node.at = Position{0, 0};
  node.plain = true;
  node.text = text;
  return node;
}

YamlNode list(std::span<const std::string> texts) {
  YamlNode node;
  node.kind = YamlNode::Kind::List;
  node.at = Position{0, 0};
  for (const std::string& text : texts) node.items.push_back(scalar(text));
  return node;
}

YamlNode split_list(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    std::string_view part = text.substr(0, end);
    if (separator == ',') {
      while (part.starts_with(' ')) part.remove_prefix(1);
      while (part.ends_with(' ')) part.remove_suffix(1);
    }
    parts.emplace_back(part);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return list(parts);
}

// The first one counts, as for getenv().
std::optional<std::string_view> find_variable(std::span<const std::string> environ,
                                              std::string_view name) {
  for (const std::string& entry : environ) {
    const std::string_view view = entry;
    if (view.size() > name.size() && view.starts_with(name) && view[name.size()] == '=')
      return view.substr(name.size() + 1);
  }
  return std::nullopt;
}

Result<void> check_names(std::span<const std::string> environ) {
  for (const std::string& entry : environ) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    if (!name.starts_with(kOurs)) continue;
    if (std::ranges::find(kNotSettings, name) != kNotSettings.end()) continue;
    const std::string_view rest = name.substr(kOurs.size());
    const auto section = std::ranges::find_if(
        kSections, [rest](std::string_view one) { return rest.starts_with(one); });
    if (section == kSections.end()) continue;
    const bool known = std::ranges::any_of(
        setting_keys(), [rest](const SettingKey& key) { return variable_name(key.path) == rest; });
    if (known) continue;
    if (*section == "PROFILES_") {
      return bad_field(printable(name),
                       fmt::format("{}: profiles stand in the file only", printable(name)));
    }
    std::string names;
    for (const SettingKey& key : setting_keys()) {
      if (!variable_name(key.path).starts_with(*section)) continue;
      names += fmt::format("{}{}{}", names.empty() ? "" : ", ", kOurs, variable_name(key.path));
    }
    return bad_field(printable(name),
                     fmt::format("{} names no setting; known: {}", printable(name), names));
  }
  return {};
}

// The error names what the person typed, not the setting behind it.
std::unexpected<Error> said_as(std::string_view name, Error error) {
  const std::string prefix = error.field + ": ";
  if (error.message.starts_with(prefix)) error.message.erase(0, prefix.size());
  error.message = fmt::format("{}: {}", name, error.message);
  error.field = name;
  return std::unexpected(std::move(error));
}

Result<void> take(Settings& settings, std::string_view path, const YamlNode& node,
                  std::string_view shown) {
  const SettingKey* key = find_setting(path);
  CAISSON_ASSERT(key != nullptr);
  if (auto read = key->read(node, path, settings); !read) return said_as(shown, read.error());
  return {};
}

// As that service reads them: in any case, and an empty one is not there.
std::optional<std::string> find_daiv(std::span<const std::string> environ, std::string_view name) {
  const std::string whole = std::string(kDaiv) + std::string(name);
  for (const std::string& entry : environ) {
    const std::size_t equals = entry.find('=');
    if (equals != whole.size() || equals + 1 == entry.size()) continue;
    if (variable_name(lower(std::string_view(entry).substr(0, equals))) == whole)
      return entry.substr(equals + 1);
  }
  return std::nullopt;
}

// Where it listens. That service listens on every address unless it is told otherwise; we do so
// only for whoever says it, and then without TLS, as it did.
Result<void> take_daiv_address(Settings& settings, std::span<const std::string> environ) {
  const auto host = find_daiv(environ, "HOST");
  const auto port = find_daiv(environ, "PORT");
  if (!host && !port) return {};
  const std::string name = host.value_or("127.0.0.1");
  const std::string shown = name.find(':') == std::string::npos ? name : "[" + name + "]";
  const std::vector<std::string> address{shown + ":" + port.value_or("8000")};
  TRY(take(settings, "server.listen", list(address),
           host ? "DAIV_SANDBOX_HOST" : "DAIV_SANDBOX_PORT"));
  if (host) settings.server.behind_tls_proxy = true;
  return {};
}

Result<void> apply_daiv(Settings& settings, std::span<const std::string> environ) {
  TRY(take_daiv_address(settings, environ));
  if (auto key = find_daiv(environ, "API_KEY")) settings.daiv.api_key = *std::move(key);
  if (const auto runtime = find_daiv(environ, "RUNTIME"); runtime && *runtime != "runc")
    return bad_field("DAIV_SANDBOX_RUNTIME",
                     fmt::format("DAIV_SANDBOX_RUNTIME: {} is no tier of this server; its native "
                                 "one takes the place of runc",
                                 in_quotes(*runtime)));
  for (const DaivVariable& variable : daiv_variables()) {
    auto value = find_daiv(environ, variable.name);
    if (!value) continue;
    if (variable.path == "logging.level" && lower(*value) == "critical") value = "error";
    const SettingKey* key = find_setting(variable.path);
    CAISSON_ASSERT(key != nullptr);
    const YamlNode node =
        key->separator == '\0' ? scalar(*value) : split_list(*value, key->separator);
    TRY(take(settings, variable.path, node, std::string(kDaiv) + std::string(variable.name)));
  }
  return {};
}

// As that service reads them. Its port is one of every address; ours is one of this machine, unless
// agentbox.listen says more.
Result<void> apply_agentbox(Settings& settings, std::span<const std::string> environ) {
  AgentboxSettings& agentbox = settings.agentbox;
  if (const auto port = find_variable(environ, "GRPC_PORT"))
    TRY(take(settings, "agentbox.listen", scalar("127.0.0.1:" + std::string(*port)), "GRPC_PORT"));
  // The path itself is not used: what is kept lies in volumes, which have a limit.
  if (const auto path = find_variable(environ, "STORAGE_PATH"); path && !path->empty())
    agentbox.storage = true;
  if (const auto key = find_variable(environ, "SIGNING_KEY"); key && !key->empty())
    agentbox.signing_key = *key;
  const auto runtime = find_variable(environ, "SANDBOX_RUNTIME");
  if (runtime && *runtime != "runc")
    return bad_field("SANDBOX_RUNTIME",
                     fmt::format("SANDBOX_RUNTIME: {} is no tier of this server; its native one "
                                 "takes the place of runc",
                                 in_quotes(*runtime)));
  for (const AgentboxVariable& variable : agentbox_variables()) {
    const auto value = find_variable(environ, variable.name);
    if (value) TRY(take(settings, variable.path, scalar(*value), variable.name));
  }
  return {};
}

// Which capabilities a sandbox's root has is not for sale here, so a list of them is refused rather
// than passed over.
Result<void> apply_sandboxer(Settings& settings, std::span<const std::string> environ) {
  const auto capabilities = find_variable(environ, "DEFAULT_CAPABILITIES");
  if (capabilities && !capabilities->empty())
    return bad_field("DEFAULT_CAPABILITIES",
                     "DEFAULT_CAPABILITIES: programs of a sandbox have no capabilities, in a user "
                     "namespace of its own; unset it");
  for (const SandboxerVariable& variable : sandboxer_variables()) {
    const auto value = find_variable(environ, variable.name);
    if (!value || value->empty()) continue;
    std::string text(*value);
    if (variable.size) {
      auto size = megabytes_of(text);
      if (!size) return said_as(variable.name, size.error());
      text = *std::move(size);
    }
    TRY(take(settings, variable.path, scalar(text), variable.name));
  }
  return {};
}

}  // namespace

Result<void> apply_environment(Settings& settings, std::span<const std::string> environ) {
  TRY(check_names(environ));
  TRY(apply_daiv(settings, environ));
  TRY(apply_agentbox(settings, environ));
  TRY(apply_sandboxer(settings, environ));
  for (const SettingKey& key : setting_keys()) {
    if (key.path.find('.') == std::string_view::npos) continue;  // profiles
    const std::string rest = variable_name(key.path);
    std::string name = std::string(kOurs) + rest;
    auto value = find_variable(environ, name);
    if (!value) {
      name = std::string(kTheirs) + rest;
      value = find_variable(environ, name);
    }
    if (!value) continue;
    const YamlNode node =
        key.separator == '\0' ? scalar(*value) : split_list(*value, key.separator);
    TRY(take(settings, key.path, node, name));
  }
  return {};
}

Result<void> apply_flags(Settings& settings, const SettingFlags& flags) {
  if (!flags.listen.empty()) TRY(take(settings, "server.listen", list(flags.listen), "--listen"));
  if (flags.grpc_listen)
    TRY(take(settings, "agentbox.listen", scalar(*flags.grpc_listen), "--grpc-listen"));
  if (flags.vhost) TRY(take(settings, "server.vhost", scalar(*flags.vhost), "--vhost"));
  if (flags.state_dir)
    TRY(take(settings, "server.state_dir", scalar(*flags.state_dir), "--state-dir"));
  if (flags.log_level)
    TRY(take(settings, "logging.level", scalar(*flags.log_level), "--log-level"));
  if (flags.log_format)
    TRY(take(settings, "logging.format", scalar(*flags.log_format), "--log-format"));
  if (flags.open) settings.auth.open = true;
  if (flags.behind_tls_proxy) settings.server.behind_tls_proxy = true;
  return {};
}

}  // namespace caisson::policy
