// guest/layer/unpack.h — an image's layer, from its archive into a folder, by the image
// specification's rules. Parents are found by the kernel inside the folder; whatever stands in an
// entry's way and came from this same archive gives way to it.
#pragma once

#include "guest/layer/archive_stream.h"
#include "guest/layer/layer.h"

namespace caisson::layer {

inline constexpr std::int64_t kOwnerMax = 65534;

// Everything into `root`, which is empty; then the rest of the stream, for the digest.
[[nodiscard]] Result<void> unpack(ArchiveStream& stream, int root, Meter& meter);

// The whole job: out/root is made here.
[[nodiscard]] Result<wire::LayerDone> unpack_job(const Work& work, Meter& meter);

}  // namespace caisson::layer
