// doors/shared/local.h — whether a request comes from this machine, and was meant for it.
#pragma once

#include "http/http.h"

namespace caisson::doors {

// For a server that asks for no token. The peer is of this machine, and the name it calls us by is
// one that only this machine has: a foreign page that gave its own name our address shows up with
// another one.
[[nodiscard]] bool is_local(const http::Request& request);

}  // namespace caisson::doors
