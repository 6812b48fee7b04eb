// egress/gate/tls_pump.h — one end of TLS on a socket, and its clear text on another: whoever reads
// and writes the second speaks with the peer of the first and need not know that there is TLS.
//
// handshake() comes first, then run(): two coroutines, one for each direction. Only the outward one
// writes to the peer; what TLS itself has to say, it says in between.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/gate/deadline.h"
#include "egress/gate/signal.h"
#include "egress/gate/stream.h"
#include "egress/gate/tls_session.h"

namespace caisson::egress {

class TlsPump : public std::enable_shared_from_this<TlsPump> {
 public:
  TlsPump(const boost::asio::any_io_executor& executor, TlsSession session);

  // `wire` carries TLS; the other end of the clear text is returned.
  [[nodiscard]] Result<UniqueFd> open(UniqueFd wire);
  // What was read from the wire before us.
  [[nodiscard]] Result<void> feed(std::string_view bytes);
  [[nodiscard]] boost::asio::awaitable<Result<void>> handshake(milliseconds limit);
  void run();
  // The end of both directions: at most `limit` for the peer to take what is for it, then closed.
  [[nodiscard]] boost::asio::awaitable<void> finish(milliseconds limit);
  // At once; the peer sees a reset and takes what it has for no end.
  void abort() noexcept;

 private:
  enum class Pull : std::uint8_t { Moved, Want, End, Broken };

  static boost::asio::awaitable<void> run_inward(std::shared_ptr<TlsPump> self);
  static boost::asio::awaitable<void> run_outward(std::shared_ptr<TlsPump> self);
  [[nodiscard]] boost::asio::awaitable<bool> inward();
  [[nodiscard]] boost::asio::awaitable<bool> outward();
  [[nodiscard]] boost::asio::awaitable<bool> send(Stream& stream, std::string_view bytes);
  [[nodiscard]] boost::asio::awaitable<bool> flush();
  [[nodiscard]] IoState read_wire();
  [[nodiscard]] Pull pull(std::string& kept);
  [[nodiscard]] IoState push();

  boost::asio::any_io_executor executor_;
  TlsSession session_;
  Stream wire_;
  Stream plain_;
  Deadline deadline_;
  Signal inward_done_;
  Signal outward_done_;
  bool running_ = false;
  bool aborted_ = false;
};

}  // namespace caisson::egress
