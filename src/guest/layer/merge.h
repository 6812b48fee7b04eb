// guest/layer/merge.h — what makes b out of base, as a layer for the top of a: three ways, by file.
// What only b changed is taken, what both changed alike is there already, everything else is a
// conflict; and where there is one, nothing is written at all.
#pragma once

#include "guest/layer/layer.h"

namespace caisson::layer {

[[nodiscard]] Result<wire::LayerDone> merge_job(const Work& work, Meter& meter);

}  // namespace caisson::layer
