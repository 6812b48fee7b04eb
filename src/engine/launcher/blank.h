// engine/launcher/blank.h — what a sandbox that was made ahead can become when it is handed out.
#pragma once

#include <string>

#include "engine/launch_request.h"

namespace caisson::engine {

// Nothing of it has to change but its limits.
[[nodiscard]] bool fits(const LaunchRequest& blank, const LaunchRequest& request);

// It can be given what it lacks: a name, and layers above its own.
[[nodiscard]] bool can_become(const LaunchRequest& blank, const LaunchRequest& request);

// What is one caller's alone, nobody else will ask for: his folders, his authority, his volumes.
[[nodiscard]] bool is_common(const LaunchRequest& request);

}  // namespace caisson::engine
