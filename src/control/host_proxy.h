// control/host_proxy.h — a proxy on the host, for clients that cannot be in a sandbox's network and
// hold its token. It reads one head, finds the sandbox that the token names, and hands the
// connection to that sandbox's gate, which judges it and everything after it as its own.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "egress/gate/gate.h"

namespace caisson::control {

// That have not shown a token yet.
inline constexpr std::size_t kHostProxyWaitingMax = 128;

class HostProxy : public std::enable_shared_from_this<HostProxy> {
 public:
  // The gate for the value of Proxy-Authorization; none: 407.
  using Find = std::function<std::shared_ptr<egress::Gate>(std::string_view proxy_authorization)>;

  [[nodiscard]] static Result<std::shared_ptr<HostProxy>> open(
      const boost::asio::any_io_executor& executor, const std::string& host, std::uint16_t port,
      Find find);
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  void close() noexcept;

 private:
  HostProxy(const boost::asio::any_io_executor& executor, Find find)
      : executor_(executor), acceptor_(executor), find_(std::move(find)) {}
  void accept();
  static boost::asio::awaitable<void> serve(std::shared_ptr<HostProxy> self, UniqueFd fd);

  boost::asio::any_io_executor executor_;
  boost::asio::ip::tcp::acceptor acceptor_;
  Find find_;
  std::uint16_t port_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace caisson::control
