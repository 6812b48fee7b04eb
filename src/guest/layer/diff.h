// guest/layer/diff.h — what makes one state out of another, told name by name. The order is that of
// a walk: a folder, then what is in it, names by their bytes.
#pragma once

#include "guest/layer/layer.h"

namespace caisson::layer {

// From a to b; with kJobStage also both sides of each change, in out/a and out/b.
[[nodiscard]] Result<wire::LayerDone> diff_job(const Work& work, Meter& meter);

}  // namespace caisson::layer
