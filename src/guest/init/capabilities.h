// guest/init/capabilities.h — which capabilities a child of init keeps. There are none, except for
// root of a sandbox that is made like its image (kConfigRootCapabilities): it may act for the other
// ids inside. All of them count in the sandbox's own user namespace alone; the filter keeps init's
// own id out of their reach (engine/seccomp).
#pragma once

#include <linux/capability.h>
#include <stdint.h>

#include "guest/init/config.h"

namespace caisson::init {

constexpr uint64_t kFileCapabilities =
    (1ULL << CAP_CHOWN) | (1ULL << CAP_DAC_OVERRIDE) | (1ULL << CAP_FOWNER) | (1ULL << CAP_FSETID);
constexpr uint64_t kRootCapabilities = kFileCapabilities | (1ULL << CAP_SETUID) |
                                       (1ULL << CAP_SETGID) | (1ULL << CAP_SETFCAP) |
                                       (1ULL << CAP_KILL) | (1ULL << CAP_NET_BIND_SERVICE);

inline bool is_root_of_image(const Config& config, uint32_t uid) {
  return uid == 0 && config.has(wire::kConfigRootCapabilities);
}

// Of a program.
inline uint64_t tenant_capabilities(const Config& config, uint32_t uid) {
  return is_root_of_image(config, uid) ? kRootCapabilities : 0;
}

// Of a file operation in the tenant's name.
inline uint64_t file_capabilities(const Config& config, uint32_t uid) {
  return is_root_of_image(config, uid) ? kFileCapabilities : 0;
}

}  // namespace caisson::init
