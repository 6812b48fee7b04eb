// control/idle_launcher.h — a start that failed leaves no launcher behind, and takes nothing away
// that an earlier server left for the next one.
#pragma once

#include <string>

namespace caisson::control {

// Ends the launcher at this socket, unless sandboxes live in it. The caller holds the state
// directory's lock, so nobody else is about to ask it for one. What cannot be asked is left alone.
void end_idle_launcher(const std::string& socket);

}  // namespace caisson::control
