#include "cli/client_secret_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

namespace caisson::cli {

Result<std::string> read_secret(std::string_view what, std::size_t bytes_max) {
  if (::isatty(STDIN_FILENO) != 0)
    fmt::print(stderr, "{}, then the end of input (Ctrl-D):\n", what);
  std::string value;
  std::array<char, 1024> piece{};
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_failure("read standard input", errno);
    if (got == 0) break;
    value.append(piece.data(), static_cast<std::size_t>(got));
    if (value.size() > bytes_max + 2)  // with a line's end
      return failure(Errc::TooLarge, fmt::format("{} has more than {} bytes", what, bytes_max));
  }
  if (value.ends_with('\n')) value.pop_back();
  if (value.ends_with('\r')) value.pop_back();
  if (value.size() > bytes_max)
    return failure(Errc::TooLarge, fmt::format("{} has more than {} bytes", what, bytes_max));
  if (value.empty())
    return failure(Errc::InvalidArgument, fmt::format("{}: nothing came on standard input", what));
  return value;
}

}  // namespace caisson::cli
