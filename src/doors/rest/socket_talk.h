// doors/rest/socket_talk.h — what the two WebSockets of commands have in common.
#pragma once

#include <memory>
#include <string>

#include "doors/rest/running.h"

namespace caisson::rest {

enum class SocketKind : std::uint8_t {
  Streams,   // binary messages begin with a byte that names the stream
  Terminal,  // binary messages are the terminal's bytes
};

// Moves bytes both ways until the process has ended (true) or the client has left (false). What
// goes wrong is told to the client before it is returned.
awaitable<Result<bool>> talk(Call& call, http::WebSocket& socket, SocketKind kind,
                             RunningCommand& command);

// {"type": "error", …}, then the close.
awaitable<void> tell_error(Call& call, http::WebSocket& socket, Error error);
// {"type": TYPE, …} as a text message.
awaitable<Result<void>> tell(http::WebSocket& socket, std::string_view type,
                             boost::json::object data);

}  // namespace caisson::rest
