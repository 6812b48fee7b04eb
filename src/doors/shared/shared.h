// doors/shared — what more than one wire dialect needs, and no dialect's own words. guard.h judges
// names and origins, identity.h says who is asking, local.h knows a caller of this machine,
// budget.h counts the bytes that calls hold at once, text.h reads and writes text as Python does.
// json_input.h, json_text.h and schema.h are JSON as servers in Python read, write and judge it.
// Never here: routes, what a body says, what a sandbox is.
#pragma once

#include "doors/shared/budget.h"
#include "doors/shared/guard.h"
#include "doors/shared/identity.h"
#include "doors/shared/json_input.h"
#include "doors/shared/json_text.h"
#include "doors/shared/local.h"
#include "doors/shared/schema.h"
#include "doors/shared/text.h"
