// egress/gate/stream.h — one non-blocking socket: tried first, waited for only when it has nothing
// or takes nothing. Two coroutines may use one, one for each direction.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::egress {

enum class IoState : std::uint8_t { Moved, WouldBlock, End, Broken };

struct Io {
  IoState state = IoState::Broken;
  std::size_t bytes = 0;
};

class Stream {
 public:
  explicit Stream(const boost::asio::any_io_executor& executor) : descriptor_(executor) {}

  // Takes the socket and makes it non-blocking. What was there is closed.
  [[nodiscard]] Result<void> assign(UniqueFd fd);

  [[nodiscard]] bool is_open() const noexcept { return descriptor_.is_open(); }
  [[nodiscard]] int fd() noexcept { return is_open() ? descriptor_.native_handle() : -1; }

  [[nodiscard]] Io try_read(char* into, std::size_t size) noexcept;
  [[nodiscard]] Io try_write(std::string_view bytes) noexcept;

  // False: cancelled, or closed meanwhile.
  [[nodiscard]] boost::asio::awaitable<bool> wait_read();
  [[nodiscard]] boost::asio::awaitable<bool> wait_write();

  // Every wait under way ends; the socket stays.
  void cancel() noexcept;
  void finish_writing() noexcept;  // the peer reads the end
  void close() noexcept;
  // The peer sees a reset: what it has not read is lost, and it knows that this was no end.
  void reset() noexcept;

  // Whether the peer has closed, or said something that nobody asked for.
  [[nodiscard]] bool is_stale() noexcept;
  // Whether the peer has at least closed its sending half.
  [[nodiscard]] bool hung_up() noexcept;

 private:
  boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace caisson::egress
