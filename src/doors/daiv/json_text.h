// doors/daiv/json_text.h — JSON as the original writes it: doors/shared/json_text.h.
#pragma once

#include "doors/shared/json_text.h"

namespace caisson::daiv {

using doors::append_escaped;
using doors::append_string;
using doors::json_text;

}  // namespace caisson::daiv
