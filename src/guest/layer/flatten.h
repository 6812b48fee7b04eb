// guest/layer/flatten.h — several layers into one that shows the same, part by part.
#pragma once

#include "guest/layer/layer.h"

namespace caisson::layer {

// in/N into out.
[[nodiscard]] Result<wire::LayerDone> flatten_job(const Work& work, Meter& meter);

}  // namespace caisson::layer
