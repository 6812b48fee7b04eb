// doors/mcp/talk.h — the two ways in which messages come and go.
#pragma once

#include "doors/mcp/call.h"
#include "http/http.h"

namespace caisson::mcp {

struct Talk {
  http::Exchange& exchange;
  Services& services;
  control::Caller caller;
};

// http_talk.cc: streamable HTTP.
awaitable<void> talk_post(Talk& talk);
awaitable<void> talk_get(Talk& talk);
awaitable<void> talk_delete(Talk& talk);
// stream_talk.cc: lines over a WebSocket.
awaitable<void> talk_stream(Talk& talk);

// A refusal as JSON-RPC has it, without an id.
awaitable<void> refuse(http::Exchange& exchange, unsigned status, std::string message);

}  // namespace caisson::mcp
