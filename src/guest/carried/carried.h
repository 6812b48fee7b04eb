// guest/carried — what both ends of a carried stream have in common: the table of connections on
// it, in streams.h, and frames on their way out, in queue.h. Freestanding, compiled into
// caisson-init and caisson-carrier. Never here: system calls, and anything that only one of the two
// does.
#pragma once

#include "guest/carried/queue.h"
#include "guest/carried/streams.h"
