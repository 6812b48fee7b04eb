// A server with two addresses on one thread, for bench/http: /healthz answers a constant, /stream
// sends as many bytes as its query says, 256 KiB at a time. Prints its port.
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "http/server.h"

namespace {

using caisson::UniqueFd;
namespace http = caisson::http;

class Constant final : public http::Handler {
 public:
  http::awaitable<void> handle(http::Exchange& exchange) override {
    if (exchange.request().path == "/stream") {
      co_await stream(exchange, std::strtoull(exchange.request().query.c_str(), nullptr, 10));
    } else {
      co_await exchange.respond(200, "application/json", "{\"status\":\"ok\"}");
    }
  }

 private:
  http::awaitable<void> stream(http::Exchange& exchange, std::uint64_t left) {
    auto sent = co_await exchange.begin(200, "application/octet-stream", left);
    while (sent && left > 0) {
      const std::size_t size = std::min<std::uint64_t>(left, block_.size());
      sent = co_await exchange.write(std::span<const std::byte>(block_).first(size));
      left -= size;
    }
    if (sent) (void)co_await exchange.end();
  }
  std::vector<std::byte> block_ = std::vector<std::byte>(256UL * 1024);
};

}  // namespace

int main() {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (!listener || ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener.get(), 512) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("listen");
    return 1;
  }
  boost::asio::io_context context(1);
  Constant handler;
  const auto server = http::Server::make(context.get_executor(), handler, {}, {});
  if (const auto ok = server->listen(std::move(listener)); !ok) return 1;
  std::printf("%u\n", ntohs(address.sin_port));
  (void)std::fflush(stdout);
  context.run();
}
