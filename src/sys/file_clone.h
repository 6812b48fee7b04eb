// sys/file_clone.h — the bytes of one file in another: shared where the file system can do that,
// else copied, and holes stay holes.
#pragma once

#include "base/result.h"

namespace caisson::sys {

// `to` is empty, and gets the size of `from`.
[[nodiscard]] Result<void> clone_file(int from, int to);

}  // namespace caisson::sys
