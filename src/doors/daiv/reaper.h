// doors/daiv/reaper.h — sessions that nobody came back to.
#pragma once

#include "doors/daiv/call.h"

namespace caisson::daiv {

// Stopped ones beyond their time or their number, running ones that were not used for long, and
// secrets of sessions that are gone. What fails for one session does not keep the others.
awaitable<void> sweep_sessions(Services& services);

}  // namespace caisson::daiv
