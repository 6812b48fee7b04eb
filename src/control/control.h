// control — the life of a sandbox: create, execute, destroy. The one interface that doors call.
// Start at fleet.h, every sandbox of a server, and open_fleet.h, how a server gets it; access.h
// knows who is calling. sandbox_manager.h is the library with the names of AumAI Sandbox;
// local_spec.h turns a capability and the caller's current folder into what the engine launches.
// Never here: wire formats, terminals, system calls of a launch.
#pragma once

#include "control/local_spec.h"
#include "control/sandbox_manager.h"
