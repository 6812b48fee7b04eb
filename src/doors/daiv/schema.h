// doors/daiv/schema.h — what bodies of this dialect must look like is told in the same words as
// elsewhere: doors/shared/schema.h.
#pragma once

#include "doors/shared/schema.h"

namespace caisson::daiv {

using doors::Bounds;
using doors::Fields;
using doors::kProblemsMax;
using doors::Pairs;
using doors::Problems;
using doors::read_flag;
using doors::read_integer;
using doors::read_number;
using doors::read_text;

}  // namespace caisson::daiv
