// image/config.h — what an image says about how to run it. A hostile text: every part is
// bounded, and a user's number is a whole number within the range or the image is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "image/digest.h"
#include "image/manifest.h"
#include "image/user.h"

namespace caisson::image {

inline constexpr std::size_t kEnvEntriesMax = 256;
inline constexpr std::size_t kEnvBytesMax = 128UL * 1024;  // all of them together
inline constexpr std::size_t kArgumentsMax = 1024;         // of entrypoint and of cmd
inline constexpr std::size_t kArgumentBytesMax = 128UL * 1024;
inline constexpr std::size_t kWorkdirBytesMax = 4096;
inline constexpr std::size_t kLabelsMax = 1024;
inline constexpr std::size_t kLabelBytesMax = 256UL * 1024;  // names and values together
inline constexpr std::size_t kVolumesMax = 64;
inline constexpr std::size_t kPortsMax = 256;

struct ExposedPort {
  std::uint16_t first = 0;
  std::uint16_t last = 0;        // the same, unless it is a range
  std::string protocol = "tcp";  // "tcp", "udp", "sctp"
  friend bool operator==(const ExposedPort&, const ExposedPort&) = default;
};

struct ImageConfig {
  Platform platform;
  std::string created;  // as written, or empty
  UserSpec user;
  std::string workdir;           // absolute and plain, or empty; it may not exist in the image
  std::vector<std::string> env;  // "NAME=value", each name once
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<ExposedPort> ports;
  std::map<std::string, std::string> labels;
  std::vector<std::string> volumes;  // absolute and plain
  std::string stop_signal;           // "SIGTERM", "9", or empty
  std::vector<Digest> diff_ids;      // of the layers' plain tars, the lowest first
};

[[nodiscard]] Result<ImageConfig> parse_config(std::string_view text);
// An OCI config with the same content; parse_config() of it gives the same back.
[[nodiscard]] std::string to_json(const ImageConfig& config);

}  // namespace caisson::image
