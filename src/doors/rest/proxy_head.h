// doors/rest/proxy_head.h — what passes between a client and a program inside, and what does not.
//
// To the program: nothing that speaks of us (tokens, cookies, names of hosts) and nothing that is
// about the connection. To the client: nothing that would act on our origin (cookies, CORS, service
// workers), and a policy that gives a page an origin of its own, so that a guest's script is a
// stranger to this API.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/field.h"
#include "http/http.h"

namespace caisson::rest {

inline constexpr std::string_view kGuestPagePolicy =
    "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

struct Upstream {
  std::uint16_t port = 0;
  std::string_view raw_tail;  // as sent, from its '/'; empty is "/"
  bool websocket = false;
};
// The head of the request to the program inside, with its empty line.
[[nodiscard]] Result<std::string> upstream_head(const http::Request& request,
                                                const Upstream& upstream);

// The program's fields as the client gets them. `prefix` is the path of the port on this server.
[[nodiscard]] std::vector<http::Field> answer_fields(const std::vector<http::Field>& fields,
                                                     std::uint16_t port, std::string_view prefix);

// For a switch of protocols: what the handshake needs, and our own protocol where the program chose
// none of those it saw.
[[nodiscard]] std::vector<http::Field> switch_fields(const std::vector<http::Field>& fields,
                                                     const http::Request& request);

}  // namespace caisson::rest
