// guest/layer/copy.h — one entry from one tree into another, with everything that a layer keeps of
// it. Data is shared where the file system can, and holes stay holes.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/result.h"
#include "guest/layer/layer.h"
#include "guest/layer/tree.h"

namespace caisson::layer {

// The bytes of one regular file into an empty one.
[[nodiscard]] Result<void> copy_content(int from, int to, std::uint64_t size, Meter& meter);

// A file, link or fifo that `facts` describes. Sockets are left out.
[[nodiscard]] Result<void> copy_entry(int from, const std::string& name, const struct stat& facts,
                                      int to, Meter& meter);

// Makes the folder `name` with the owner, mode and attributes of `from`. Its time comes last, by
// set_times(), when nothing is put into it any more.
enum class Opaque { No, Yes };
[[nodiscard]] Result<UniqueFd> make_folder_like(int from, int to, const std::string& name,
                                                Opaque opaque);

}  // namespace caisson::layer
