// doors/proxy/inside.h — the connection to the program: tried first, waited for only when it has
// nothing or takes nothing.
#pragma once

#include <sys/uio.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::proxy {

using boost::asio::awaitable;

inline constexpr std::size_t kHeadBytesMax = 64UL * 1024;
// A stream at rest holds the small one; the large one comes with reads that fill what there is.
inline constexpr std::size_t kPieceBytesMin = 16UL * 1024;
inline constexpr std::size_t kPieceBytesMax = 256UL * 1024;
inline constexpr seconds kStallTimeout{60};  // for one piece of the request's body

class Inside {
 public:
  Inside(boost::asio::ip::tcp::socket socket, std::uint16_t port)
      : socket_(std::move(socket)), port_(port) {}
  [[nodiscard]] static Result<Inside> take(const boost::asio::any_io_executor& executor,
                                           UniqueFd fd, std::uint16_t port);

  // What the program sends next; 0 at its end. Protocol when the connection broke.
  awaitable<Result<std::size_t>> read_some(std::span<std::byte> out);
  // Bytes that were read beyond what was wanted: read_some() gives them out first.
  void unread(std::string_view bytes) { ahead_.assign(bytes.begin(), bytes.end()); }
  [[nodiscard]] std::size_t ahead() const noexcept { return ahead_.size() - ahead_used_; }

  // All of the pieces. Protocol when the program closed, or has answered and reads no more;
  // TimedOut when it takes nothing for kStallTimeout.
  awaitable<Result<void>> write(std::span<iovec> pieces);
  awaitable<Result<void>> write(std::string_view bytes);

  // From now on both sides speak whenever they like: an answer is no sign that nobody reads.
  void switched() noexcept { switched_ = true; }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  // When the program last sent or took something.
  [[nodiscard]] TimePoint moved() const noexcept { return moved_; }
  [[nodiscard]] std::unexpected<Error> wrong(std::string_view what) const;

 private:
  // True when all was sent; the pieces are moved on past what was.
  [[nodiscard]] Result<bool> send_now(std::span<iovec>& pieces);
  awaitable<Result<void>> wait_until_taken();

  boost::asio::ip::tcp::socket socket_;
  std::vector<char> ahead_;
  std::size_t ahead_used_ = 0;
  std::uint16_t port_;
  bool switched_ = false;
  TimePoint moved_ = Clock::now();
};

}  // namespace caisson::proxy
