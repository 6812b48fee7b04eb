// engine/link/exec_exit.h — how a command ended, as every user of the link reads it.
#pragma once

#include "engine/link/guest_session.h"

namespace caisson::engine {

inline constexpr int kSignalBase = 128;

// Lost bytes are added to what is counted there already.
void take_exit(ExecResult& result, const wire::ExitedBody& body);

}  // namespace caisson::engine
