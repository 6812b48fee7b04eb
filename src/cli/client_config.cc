#include "cli/client_config.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "policy/wording.h"
#include "policy/yaml_tree.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

using policy::YamlNode;

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr ? value : "";
}

// Both go into a request head, where a line break would be a header of somebody else's making.
Result<void> check_word(std::string_view what, std::string_view text, std::size_t bytes_max) {
  const auto odd = [](char c) { return c <= ' ' || c > '~'; };
  if (text.size() <= bytes_max && std::ranges::none_of(text, odd)) return {};
  return bad_field(
      std::string(what),
      fmt::format("{}: want printable characters without spaces, at most {}", what, bytes_max));
}

Result<std::string> read_word(const YamlNode& node, std::string_view name) {
  if (node.kind != YamlNode::Kind::Scalar)
    return policy::invalid_at(node.at, fmt::format("{} must be a string", name));
  return node.text;
}

// Only its owner may read a file with a token in it, or say where the token is sent.
Result<void> check_owner(int fd, const std::string& shown) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return sys_failure("stat " + shown, errno);
  if (!S_ISREG(info.st_mode))
    return failure(Errc::InvalidArgument, shown + " is not a regular file");
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return failure(Errc::Denied, shown + " belongs to somebody else");
  if ((info.st_mode & 077U) != 0) {
    return failure(
        Errc::Denied,
        fmt::format("{} can be read or changed by others; run: chmod 600 {}", shown, shown));
  }
  return {};
}

}  // namespace

Result<std::optional<Endpoint>> read_client_file(const std::string& path) {
  const std::string shown = policy::printable(path);
  // O_NONBLOCK: a fifo in its place must not keep us waiting.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!fd) return sys_failure("open " + shown, errno);
  TRY(check_owner(fd.get(), shown));
  const std::string text = TRY_IN(shown, sys::read_again(fd.get(), policy::kCapabilityBytesMax));
  const YamlNode root = TRY_IN(shown, policy::parse_yaml(text));
  Endpoint out;
  if (root.kind == YamlNode::Kind::Null) return out;
  if (root.kind != YamlNode::Kind::Mapping)
    return failure(Errc::InvalidArgument, shown + ": want a mapping with url and token");
  for (std::size_t i = 0; i < root.keys.size(); ++i) {
    const std::string& name = root.keys[i].name;
    if (name != "url" && name != "token") {
      const auto unknown = policy::invalid_at(
          root.keys[i].at,
          fmt::format("unknown field {}; known fields: url, token", policy::in_quotes(name)));
      return std::unexpected(unknown.error().within(shown));
    }
    (name == "url" ? out.url : out.token) = TRY_IN(shown, read_word(root.items[i], name));
  }
  return out;
}

Result<Endpoint> find_endpoint(const EndpointSources& sources) {
  Endpoint out;
  out.url = sources.flag_url.empty() ? sources.env_url : sources.flag_url;
  out.token = sources.flag_token.empty() ? sources.env_token : sources.flag_token;
  if ((out.url.empty() || out.token.empty()) && !sources.config_folder.empty()) {
    const auto file = TRY(read_client_file(sources.config_folder + "/caisson/client.yaml"));
    if (file) {
      const std::string home = file->url.empty() ? std::string(kDefaultUrl) : file->url;
      if (out.url.empty()) out.url = home;
      if (out.token.empty() && out.url == home) out.token = file->token;
    }
  }
  if (out.url.empty()) out.url = kDefaultUrl;
  TRY(check_word("--url", out.url, kUrlBytesMax));
  TRY(check_word("--token", out.token, kTokenBytesMax));
  while (out.url.ends_with('/')) out.url.pop_back();
  return out;
}

EndpointSources sources_of_caller() {
  EndpointSources sources;
  sources.env_url = variable("CAISSON_URL");
  sources.env_token = variable("CAISSON_TOKEN");
  sources.config_folder = variable("XDG_CONFIG_HOME");
  const std::string home = variable("HOME");
  if (sources.config_folder.empty() && !home.empty()) sources.config_folder = home + "/.config";
  return sources;
}

}  // namespace caisson::cli
