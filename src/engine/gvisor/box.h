// engine/gvisor/box.h — what runsc sees each time it is run for a sandbox: a small tmpfs, with its
// state and whatever is mounted in it. Both runs of one sandbox, to start it and to save it, have
// one of their own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/gvisor/runsc.h"
#include "engine/native/slots.h"

namespace caisson::engine::gvisor {

inline constexpr const char* kName = "box";
inline constexpr const char* kState = "state";
inline constexpr const char* kImage = "image";
inline constexpr const char* kLog = "state/log";
inline constexpr const char* kWords = "words";
inline constexpr std::size_t kStateFilesMax = 16;
inline constexpr std::size_t kStateBytesMax = 256UL * 1024;  // of one of them
// In the user namespace of this one sandbox: what runsc needs to build the walls of its processes.
extern const std::uint64_t kRunscCapabilities;

// Of the sandbox's own root. `folders`: those that it has, besides the one for the state.
[[nodiscard]] Result<UniqueFd> make_box(const native::Slot& slot,
                                        std::span<const std::string> folders);
[[nodiscard]] Result<void> write_file(int dir, const std::string& name,
                                      std::span<const std::byte> content, unsigned mode);
// What every run begins with.
[[nodiscard]] std::vector<std::string> arguments(const Runsc& found);
void add_words(std::vector<std::string>& out, std::initializer_list<const char*> words);

}  // namespace caisson::engine::gvisor
