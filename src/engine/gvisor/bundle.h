// engine/gvisor/bundle.h — what runsc is told about a sandbox: an OCI bundle's config.json. Pure.
//
// Most of what a guest sees is one tree, which the host has put together before runsc starts (an
// overlay of layers, /usr, /workspace, copies of folders): runsc serves it to its kernel as the
// root, alone and cached. What others change meanwhile (a host folder that can be written, a
// volume) and what lies below a mount of that kernel's own comes as a mount of its own, which is
// not cached.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/launch_request.h"

namespace caisson::engine::gvisor {

// Inside; the file is ours, and nobody can write it.
inline constexpr std::string_view kInitPath = "/dev/caisson-init";

// Of what runsc itself sees.
inline constexpr std::string_view kRootFolder = "/b/root";
inline constexpr std::string_view kInitFile = "/b/init";
inline constexpr std::string_view kMountFolder = "/b/m";  // and a number

// Places of the sandbox, sorted, without the leading slash; whether each is a mount of its own.
[[nodiscard]] std::vector<bool> mounts_of_their_own(const LaunchRequest& request,
                                                    const std::vector<std::string>& places);

// A scratch folder that is nothing else: this kernel has one of its own there, in its own memory,
// which is saved with it.
[[nodiscard]] bool is_scratch(const LaunchRequest& request, const std::string& place);

// `own`: the places that are mounts of their own, in the order of their numbers.
[[nodiscard]] std::string bundle(const LaunchRequest& request, const std::vector<std::string>& own);

}  // namespace caisson::engine::gvisor
