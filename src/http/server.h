// http/server.h — listeners, connections and their limits.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "http/http.h"

namespace caisson::http {

struct ServerCounters {
  std::uint64_t connections = 0;  // ever
  std::uint64_t open = 0;         // now
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;    // by a limit on connections
  std::uint64_t malformed = 0;  // answered 4xx by the parser
  std::uint64_t held = 0;       // bytes of HTTP/2: of bodies that nobody has read yet, and of
                                // answers that the wire has not taken
};

class TlsFront;

class Server {
 public:
  virtual ~Server() = default;
  // `handler` outlives the server. Errors of the parser are answered in the shape that `on_error`
  // makes: a JSON body.
  using ErrorBody = std::function<std::string(unsigned status, const Error&, std::string_view id)>;
  [[nodiscard]] static std::unique_ptr<Server> make(boost::asio::any_io_executor executor,
                                                    Handler& handler, const Limits& limits,
                                                    ErrorBody on_error);
  // A bound, listening stream socket; with TLS (tls_front.h) or without.
  [[nodiscard]] virtual Result<void> listen(UniqueFd socket,
                                            std::shared_ptr<TlsFront> tls = nullptr) = 0;
  // No new connection, idle ones closed; `done` when the last answer is out. Then, or at the
  // second call, whatever is left is cut.
  virtual void stop(std::function<void()> done) = 0;
  [[nodiscard]] virtual ServerCounters counters() const noexcept = 0;
};

}  // namespace caisson::http
