// guest/layer/pack.h — one layer as the archive that an image's layer is: whiteouts and opaque
// folders by name, everything sorted, so that equal layers give equal bytes.
#pragma once

#include "guest/layer/layer.h"

namespace caisson::layer {

// in/0 into the job's descriptor.
[[nodiscard]] Result<wire::LayerDone> pack_job(const Work& work, Meter& meter);

}  // namespace caisson::layer
