// engine/native/skeleton.h — the root folder of the `host` image.
//
// A small layer in the store: the links and empty folders of a Linux root, an /etc of our own
// making, and copies of the few world-readable files of the host's /etc that programs in /usr need
// (the linker's cache, alternatives, certificates, time zone). Nothing of /home, /root or /var. The
// host's /usr is mounted on it when a sandbox starts. The layer's name is made from the time stamps
// of what was copied, so a host that is upgraded gets a new one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace caisson::engine::native {

// Folders of the host that hold programs and libraries: /usr, and /bin, /lib… where they are not
// links into it.
[[nodiscard]] std::vector<std::string> host_system_folders();

// The layer's folder relative to the store. Made if it is missing; every file in it belongs to
// `owner` (none: to us).
[[nodiscard]] Result<std::string> ensure_host_skeleton(int store_dir,
                                                       std::optional<std::uint32_t> owner);

// What lies between an image's layers and those of its sandboxes: folders for our mounts, and the
// few files of /etc that speak of this sandbox and not of the image.
[[nodiscard]] Result<std::string> ensure_image_seam(int store_dir,
                                                    std::optional<std::uint32_t> owner);

}  // namespace caisson::engine::native
