// engine — turns a wish into running processes, and back into nothing.
// Start at plan.h: plan(spec, host) is pure and says what will hold here, or refuses by name.
// launcher/core.h applies it: LauncherCore::launch() makes a sandbox through native/, destroy()
// takes every trace of it away. link/ speaks to the guest's init. host/ looks at the machine,
// seccomp/ compiles the list of system calls. Never here: HTTP, tokens, quotas of tenants. The
// engine does not decide what is allowed.
#pragma once

#include "engine/launcher/core.h"
#include "engine/plan.h"
