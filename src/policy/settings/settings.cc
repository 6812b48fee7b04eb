#include "policy/settings/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/settings/setting_keys.h"
#include "policy/settings/setting_value.h"
#include "policy/wording.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {
namespace {

// Does some setting lie below this name?
bool is_section(std::string_view path) {
  return std::ranges::any_of(setting_keys(), [path](const SettingKey& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) &&
           key.path[path.size()] == '.';
  });
}

// The names that can stand directly below `path`: "cpu, memory_mb, …".
std::string names_below(std::string_view path) {
  std::vector<std::string_view> names;
  for (const SettingKey& key : setting_keys()) {
    std::string_view rest = key.path;
    if (!path.empty()) {
      if (!rest.starts_with(path) || rest.size() <= path.size() || rest[path.size()] != '.')
        continue;
      rest.remove_prefix(path.size() + 1);
    }
    const std::string_view name = rest.substr(0, rest.find('.'));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// "a.b.c" → a, b, c
std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t dot = path.find('.');
    words.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return words;
    path.remove_prefix(dot + 1);
  }
}

struct Seen {
  std::string_view path;
  YamlNode node;
};

// Reads `node`, a mapping of settings and sections, into `out`; `seen` collects what was given.
Result<void> read_section(const YamlNode& node, const std::string& path, Settings& out,
                          std::vector<Seen>& seen) {
  if (node.kind == YamlNode::Kind::Null) return {};  // a section whose lines are all comments
  if (node.kind != YamlNode::Kind::Mapping)
    return setting::wrong_type(node, path.empty() ? "the configuration" : path, "a mapping");
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const YamlKey& key = node.keys[i];
    const std::string full = path.empty() ? key.name : fmt::format("{}.{}", path, key.name);
    // "server.listen" as one word would be a second way to say the same.
    const bool word = key.name.find('.') == std::string::npos;
    if (const SettingKey* found = word ? find_setting(full) : nullptr) {
      TRY(found->read(node.items[i], full, out));
      seen.push_back({found->path, node.items[i]});
    } else if (word && is_section(full)) {
      TRY(read_section(node.items[i], full, out, seen));
    } else {
      Error error =
          invalid_at(key.at,
                     fmt::format("unknown field {} in {}; known fields: {}", in_quotes(key.name),
                                 path.empty() ? "the configuration" : path, names_below(path)))
              .error();
      error.field = printable(full);
      return std::unexpected(std::move(error));
    }
  }
  return {};
}

Result<Settings> read_settings(std::string_view text) {
  const YamlNode root = TRY(parse_yaml(text));
  Settings out;
  std::vector<Seen> seen;
  TRY(read_section(root, "", out, seen));
  for (const SettingAlias& alias : setting_aliases()) {
    const auto one = std::ranges::find(seen, alias.name, &Seen::path);
    if (one == seen.end() || std::ranges::find(seen, alias.other, &Seen::path) == seen.end())
      continue;
    return setting::wrong(
        one->node, alias.name,
        fmt::format("{} is given too, and says the same; keep one of the two", alias.other));
  }
  return out;
}

}  // namespace

Result<Settings> parse_settings(std::string_view text, std::string_view file_name) {
  return TRY_IN(printable(file_name), read_settings(text));
}

namespace {

// An address that others can reach, where tokens would travel in clear text or not be asked for.
Result<void> check_reach(const Settings& settings, const ListenAddress& address,
                         std::string_view field, bool encrypted) {
  if (address.is_local()) return {};
  if (settings.auth.open) {
    return bad_field("auth.open",
                     fmt::format("auth.open: without tokens a server listens on this machine "
                                 "only, not on {}; make tokens, or listen on 127.0.0.1",
                                 to_string(address)));
  }
  if (encrypted || settings.server.behind_tls_proxy) return {};
  return bad_field(std::string(field),
                   fmt::format("{}: {} can be reached by others, and tokens would travel in clear "
                               "text; listen on 127.0.0.1 behind a reverse proxy that speaks TLS, "
                               "or say behind_tls_proxy if one is there",
                               field, to_string(address)));
}

}  // namespace

std::optional<ListenAddress> grpc_address(const Settings& settings) {
  if (settings.agentbox.off) return std::nullopt;
  if (settings.agentbox.listen) return settings.agentbox.listen;
  if (settings.server.listen != ServerSettings{}.listen) return std::nullopt;
  ListenAddress usual;
  usual.port = kGrpcPort;
  return usual;
}

Result<void> check_settings(const Settings& settings) {
  for (const ListenAddress& address : settings.server.listen)
    TRY(check_reach(settings, address, "server.listen", false));
  const AgentboxSettings& agentbox = settings.agentbox;
  if (agentbox.tls_certificate_file.empty() != agentbox.tls_key_file.empty())
    return bad_field("agentbox.tls_key_file",
                     "agentbox.tls_certificate_file and agentbox.tls_key_file: say both, or none");
  if (const auto address = grpc_address(settings))
    TRY(check_reach(settings, *address, "agentbox.listen", !agentbox.tls_key_file.empty()));
  if (settings.auth.open && settings.server.behind_tls_proxy) {
    return bad_field("auth.open",
                     "auth.open: a server without tokens must not be behind a proxy, which lets "
                     "others in");
  }
  return {};
}

std::string to_yaml(const Settings& settings) {
  std::string out;
  std::vector<std::string_view>
      open;  // the sections whose lines are being written, outermost first
  for (const SettingKey& key : setting_keys()) {
    if (key.print == nullptr) continue;
    std::vector<std::string_view> words = split_path(key.path);
    const std::string_view name = words.back();
    words.pop_back();
    const auto apart = std::ranges::mismatch(open, words).in2;
    for (auto word = apart; word != words.end(); ++word)
      out += fmt::format("{:{}}{}:\n", "", 2 * (word - words.begin()), *word);
    const std::string value = key.print(settings);
    out += fmt::format("{:{}}{}:{}{}\n", "", 2 * words.size(), name,
                       value.starts_with('\n') ? "" : " ", value);
    open = std::move(words);
  }
  return out;
}

SettingsDifference reloadable_difference(const Settings& before, const Settings& after) {
  SettingsDifference difference;
  for (const SettingKey& key : setting_keys()) {
    if (key.print == nullptr || key.print(before) == key.print(after)) continue;
    auto& names = key.reload == Reload::Live ? difference.reloaded : difference.need_restart;
    names.emplace_back(key.path);
  }
  return difference;
}

}  // namespace caisson::policy
