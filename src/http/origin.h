// http/origin.h — who is at the other end of a socket.
#pragma once

#include <sys/socket.h>

#include "http/server_core.h"

namespace caisson::http {

[[nodiscard]] Origin origin_of(const sockaddr_storage& address);

}  // namespace caisson::http
