// engine/link/file_entry.h — what init says of a file, as both users of the link read it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/link/guest_session.h"
#include "guest/protocol/codec.h"

namespace caisson::engine {

inline std::uint32_t flag_if(bool wanted, std::uint32_t flag) { return wanted ? flag : 0U; }

inline std::string text_of(wire::Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data), bytes.size};
}

[[nodiscard]] FileEntry entry_of(const wire::EntryView& view);

}  // namespace caisson::engine
