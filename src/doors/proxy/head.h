// doors/proxy/head.h — what passes between a client and a program inside, and what does not.
//
// To the program: nothing that is ours (tokens, cookies) and nothing that is about the connection.
// To the client under a path of our own origin: nothing that would act on that origin (cookies,
// CORS, service workers), and a policy that gives a page an origin of its own, so that a guest's
// script is a stranger to our API. On a host of its own a program has all of that for itself; what
// acts on more than its host is still dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "doors/proxy/proxy.h"
#include "http/field.h"
#include "http/http.h"

namespace caisson::proxy {

inline constexpr std::string_view kGuestPagePolicy =
    "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";
// What a proxy of this machine may say in X-Forwarded-For.
inline constexpr std::size_t kForwardedBytesMax = 512;

// The head of the request to the program inside, with its empty line.
[[nodiscard]] Result<std::string> upstream_head(const http::Request& request,
                                                const Passage& passage);

// The program's fields as the client gets them. Set-Cookie may be there more than once.
[[nodiscard]] std::vector<http::Field> answer_fields(const std::vector<http::Field>& fields,
                                                     const Passage& passage);

// For a switch of protocols: what the handshake needs, and our own protocol where the program chose
// none of those it saw.
[[nodiscard]] std::vector<http::Field> switch_fields(const std::vector<http::Field>& fields,
                                                     const http::Request& request,
                                                     const Passage& passage);

}  // namespace caisson::proxy
