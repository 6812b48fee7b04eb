// doors/rest/code.h — what came of a piece of code, as JSON.
#pragma once

#include <boost/json/object.hpp>

#include "control/code.h"

namespace caisson::rest {

[[nodiscard]] boost::json::object code_json(control::CodeOutcome outcome);
[[nodiscard]] boost::json::object to_json(const control::ContextView& view);

}  // namespace caisson::rest
