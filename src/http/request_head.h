// http/request_head.h — bytes of a client become a Request, or a refusal with its status.
// Two steps. HeadScanner looks at bytes as they arrive and finds the end of the head; it already
// refuses what a lenient reader elsewhere might split differently (a bare CR or LF, a folded line).
// read_head() then gives exactly these bytes to Beast's parser and checks what they mean together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "http/http.h"

namespace caisson::http {

struct Refusal {
  unsigned status = 400;
  Error error;
};

class HeadScanner {
 public:
  // `bytes` begins where the request begins, and each call shows at least what the last one did.
  // The answer is the length of the whole head with its empty line, or nothing while more must
  // come.
  [[nodiscard]] std::expected<std::optional<std::size_t>, Refusal> scan(std::string_view bytes,
                                                                        const Limits& limits);
  void reset() noexcept { *this = HeadScanner(); }
  // An empty line before the request is allowed once: old clients send one after a body.
  [[nodiscard]] std::size_t skipped() const noexcept { return start_; }

 private:
  std::size_t start_ = 0;  // of the request line
  std::size_t line_ = 0;   // where the line begins whose end has not been seen
  std::size_t seen_ = 0;
  std::size_t lines_ = 0;
};

// How the body is delimited and what follows on the connection.
struct Framing {
  bool http11 = true;
  bool keep_alive = true;
  bool chunked = false;
  bool expect_continue = false;
};

// Fills `request` (all but peer and id) and `framing` from one whole head.
[[nodiscard]] std::expected<void, Refusal> read_head(std::string_view head, const Limits& limits,
                                                     Request& request, Framing& framing);

// The same for a proxy, where CONNECT is a method and a target names a host: the forms of target
// and Host, and whether they agree, are the caller's to judge. `path` and `query` stay empty.
[[nodiscard]] std::expected<void, Refusal> read_proxy_head(std::string_view head,
                                                           const Limits& limits, Request& request,
                                                           Framing& framing);

// The same for HTTP/2, where the parts come one by one: method_text, target and fields are filled
// in, "host" among them, and the rest is made of them.
[[nodiscard]] std::expected<void, Refusal> read_parts(const Limits& limits, Request& request,
                                                      Framing& framing);

}  // namespace caisson::http
