// doors/proxy — HTTP/1.1 between a client of ours and a program inside a sandbox, and WebSockets as
// bare bytes once both sides have agreed. Start at pass(). One connection inside serves one
// request. Its answer is parsed, bounded, and framed anew, so what a guest sends cannot be taken
// for a second answer. Never here: whose sandbox it is, which port, or how an error is worded to a
// client.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "http/http.h"

namespace caisson::proxy {

using boost::asio::awaitable;

// Where the program's pages live, as a browser sees them.
enum class Place : std::uint8_t {
  // Under a path of this server's own origin: cookies and everything else that would act on the
  // origin is taken away, and a policy gives the page an origin of its own.
  UnderPath,
  // A host of its own: its cookies are its own, for that host alone; ours are not among them.
  OwnHost,
};

struct Passage {
  std::uint16_t port = 0;
  std::string_view raw_tail;  // path and query as sent, from its '/'; empty is "/"
  Place place = Place::UnderPath;
  std::string prefix;  // UnderPath: the path of the port on this server, without a '/' at its end
  std::string host;    // OwnHost: as the client wrote it; the program sees it, too
  std::string scheme = "http";  // as the client sees us: X-Forwarded-Proto
  // OwnHost: names of cookies that are ours and not the program's.
  std::vector<std::string> own_cookies;
  // The Authorization of the request is ours: the program must not see it.
  bool own_authorization = true;
  seconds answer_timeout{300};  // for the head of the answer
};

// `inside` is a connected TCP socket. Errors before the answer has begun: Protocol (the program
// does not speak HTTP, or broke off), TimedOut, Gone (the client left), InvalidArgument (what the
// client sent cannot be passed on), Denied (a page of ours would run it). An error after
// exchange.begun() means a cut answer.
awaitable<Result<void>> pass(http::Exchange& exchange, UniqueFd inside, Passage passage);

}  // namespace caisson::proxy
