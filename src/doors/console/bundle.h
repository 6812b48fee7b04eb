// doors/console/bundle.h — the files of the console as bytes of the program. bundle.py wrote them:
// one line a file, an empty line, then the files one after the other, each compressed by gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace caisson::console {

inline constexpr std::size_t kFilesMax = 512;
inline constexpr std::size_t kPlainBytesMax = 16UL * 1024 * 1024;  // of one file

struct Asset {
  std::string_view path;    // "/assets/index-Bx81.js"
  std::string_view type;    // "text/javascript; charset=utf-8"
  bool immutable = false;   // its name changes whenever its content does
  std::string_view digest;  // SHA-256 of the content, in hex
  std::size_t plain_bytes = 0;
  std::span<const std::byte> gzip;
};

class Bundle {
 public:
  // The text outlives the bundle.
  [[nodiscard]] static Result<Bundle> read(std::string_view text);
  [[nodiscard]] const Asset* find(std::string_view path) const noexcept;
  [[nodiscard]] const std::vector<Asset>& assets() const noexcept { return assets_; }

 private:
  std::vector<Asset> assets_;  // by path
};

[[nodiscard]] std::string_view embedded_bundle() noexcept;

}  // namespace caisson::console
