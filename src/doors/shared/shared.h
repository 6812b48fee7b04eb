// doors/shared — what more than one wire dialect needs, and no dialect's own words. budget.h counts
// the bytes that calls hold at once. Never here: routes, JSON shapes, tokens, sandboxes.
#pragma once

#include "doors/shared/budget.h"
