// doors/shared — what more than one wire dialect needs, and no dialect's own words. budget.h counts
// the bytes that calls hold at once, local.h knows a caller of this machine, text.h reads and
// writes text as Python does. Never here: routes, JSON shapes, tokens, sandboxes.
#pragma once

#include "doors/shared/budget.h"
#include "doors/shared/local.h"
#include "doors/shared/text.h"
