// doors/console/headers.h — what the page may do in a browser. It shows text of hostile programs,
// so a mistake in it must lead nowhere: no script, style or connection but those of this server.
#pragma once

#include <string>

#include "doors/console/console.h"

namespace caisson::console {

[[nodiscard]] std::string content_policy(const ConsoleOptions& options);

// For every answer, errors too.
void set_safe_headers(http::Exchange& exchange, const std::string& policy);

}  // namespace caisson::console
