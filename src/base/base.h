// base — words every room shares: Error and Result, descriptors with an owner, ids, the clock.
// Start at result.h. Never here: sandboxes, policies, system calls beyond close() and the clock.
#pragma once

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "base/unique_fd.h"
