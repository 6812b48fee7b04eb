// doors/console — the web console: a page, its scripts and styles, carried inside the program.
// Start at Door::handle in door.cc. bundle.h reads the files as bundle.py put them together when
// the program was built, encoding.h decides what a client may be sent, headers.h says what the
// page may do in a browser. Never here: tokens, sandboxes, anything that differs from one caller to
// the next. The page asks the public API for that, as every other client does.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "doors/console/bundle.h"
#include "http/http.h"

namespace caisson::console {

using boost::asio::awaitable;

struct ConsoleOptions {
  // Where previews live: the page may show them in a frame. Empty: no frames at all.
  std::string vhost;
  std::string scheme = "http";  // of the previews
  std::uint16_t port = 0;  // of the previews, when a browser has to name it; 0: the scheme's own
};

class Door final : public http::Handler {
 public:
  // A bundle other than the program's own is for tests; its bytes outlive the door.
  explicit Door(const ConsoleOptions& options, std::string_view bundle = embedded_bundle());

  // The paths of this door, whatever the method: /, /index.html, /favicon.svg and all of /assets/.
  [[nodiscard]] bool answers(const http::Request& request) const noexcept;
  awaitable<void> handle(http::Exchange& exchange) override;

 private:
  Bundle bundle_;
  std::string policy_;
};

}  // namespace caisson::console
