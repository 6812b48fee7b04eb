// cli/client_config.h — which server, and who we are: flags, then the environment, then the file
// ~/.config/caisson/client.yaml (`url`, `token`), then this machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::cli {

inline constexpr std::string_view kDefaultUrl = "http://127.0.0.1:8080";
inline constexpr std::size_t kTokenBytesMax = 512;
inline constexpr std::size_t kUrlBytesMax = 1024;

struct Endpoint {
  std::string url;
  std::string token;  // empty: none

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// Where each value may come from. Empty words are as good as none.
struct EndpointSources {
  std::string flag_url;
  std::string flag_token;
  std::string env_url;
  std::string env_token;
  std::string config_folder;  // $XDG_CONFIG_HOME, or ~/.config; empty: there is none
};

// A token is sent only where its own source meant it to go: the file's token does not follow a URL
// from elsewhere to another server.
[[nodiscard]] Result<Endpoint> find_endpoint(const EndpointSources& sources);

// The file as it is on disk; nothing when there is none. Refused when others can read or change it.
[[nodiscard]] Result<std::optional<Endpoint>> read_client_file(const std::string& path);

[[nodiscard]] EndpointSources sources_of_caller();

}  // namespace caisson::cli
