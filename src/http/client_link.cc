#include "http/client_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "http/chunk_decoder.h"

namespace caisson::http {
namespace {

constexpr std::size_t kReadBytes = 256UL * 1024;

std::unexpected<Error> unreachable(const std::string& where, int reason) {
  return std::unexpected(
      Error{Errc::LauncherGone, "connect to " + where + ": " + errno_text(reason), reason});
}

std::unexpected<Error> left_early() {
  return failure(Errc::Gone, "the server closed the connection in the middle of an answer");
}

std::unexpected<Error> bad_answer(const char* what) {
  return failure(Errc::Protocol, std::string("the server's answer is not HTTP: ") + what);
}

Result<UniqueFd> connect_to(const sockaddr* address, socklen_t size, const std::string& where,
                            milliseconds timeout) {
  UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return sys_failure("socket", errno);
  if (::connect(fd.get(), address, size) != 0) {
    const int reason = errno;
    if (reason != EINPROGRESS) return unreachable(where, reason);
    pollfd look{fd.get(), POLLOUT, 0};
    if (::poll(&look, 1, static_cast<int>(timeout.count())) <= 0) {
      return unreachable(where, ETIMEDOUT);
    }
    int outcome = 0;
    socklen_t outcome_size = sizeof outcome;
    (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &outcome, &outcome_size);
    if (outcome != 0) return unreachable(where, outcome);
  }
  const int on = 1;
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

std::vector<sockaddr_storage> literal_addresses(const std::string& host, std::uint16_t port) {
  std::vector<sockaddr_storage> found;
  const bool local = host == "localhost";
  sockaddr_storage any{};
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (::inet_pton(AF_INET, local ? "127.0.0.1" : host.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&any, &v4, sizeof v4);
    found.push_back(any);
  }
  any = {};
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (::inet_pton(AF_INET6, local ? "::1" : host.c_str(), &v6.sin6_addr) == 1) {
    std::memcpy(&any, &v6, sizeof v6);
    found.push_back(any);
  }
  return found;
}

// Only for real names: a static program's resolver loads parts of the host's C library.
Result<std::vector<sockaddr_storage>> resolve(const std::string& host, std::uint16_t port) {
  auto found = literal_addresses(host, port);
  if (!found.empty()) return found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int outcome = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (outcome != 0) {
    return std::unexpected(Error{Errc::LauncherGone,
                                 "find '" + host + "': " + ::gai_strerror(outcome),
                                 outcome == EAI_SYSTEM ? errno : EHOSTUNREACH});
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    sockaddr_storage any{};
    if (one->ai_addrlen > sizeof any) continue;
    std::memcpy(&any, one->ai_addr, one->ai_addrlen);
    found.push_back(any);
  }
  return found;
}

}  // namespace

Result<UniqueFd> ClientLink::connect_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return bad_field("url", "unix: want a path of 1 to 107 bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return connect_to(reinterpret_cast<sockaddr*>(&address), sizeof address, "unix:" + path,
                    milliseconds(0));
}

Result<UniqueFd> ClientLink::connect_tcp(const std::string& host, std::uint16_t port,
                                         milliseconds timeout) {
  const std::string where = host + " port " + std::to_string(port);
  Result<UniqueFd> last = unreachable(where, EHOSTUNREACH);
  for (const sockaddr_storage& address : TRY(resolve(host, port))) {
    const socklen_t size =
        address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    last = connect_to(reinterpret_cast<const sockaddr*>(&address), size, where, timeout);
    if (last) break;
  }
  return last;
}

bool ClientLink::readable() const noexcept {
  pollfd look{fd_.get(), POLLIN, 0};
  return ::poll(&look, 1, 0) != 0;
}

bool ClientLink::fresh() const noexcept { return in_.empty() && !readable(); }

Result<void> ClientLink::wait(short events) const {
  const int timeout = stall_ ? static_cast<int>(stall_->count()) : -1;
  for (;;) {
    pollfd look{fd_.get(), events, 0};
    const int ready = ::poll(&look, 1, timeout);
    const int reason = errno;
    if (ready > 0) return {};
    if (ready == 0) return failure(Errc::TimedOut, "the server did not answer in time");
    if (reason != EINTR) return sys_failure("poll", reason);
  }
}

Result<void> ClientLink::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    const int reason = errno;
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (reason == EAGAIN) {
      TRY(wait(POLLOUT));
    } else if (reason != EINTR) {
      return sys_failure("send to the server", reason);
    }
  }
  return {};
}

Result<bool> ClientLink::fill() {
  const std::size_t have = in_.size();
  for (;;) {
    in_.resize(have + kReadBytes);
    const ssize_t got = ::recv(fd_.get(), in_.data() + have, kReadBytes, MSG_DONTWAIT);
    const int reason = errno;
    in_.resize(have + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got > 0) return true;
    if (got == 0) return false;
    if (reason == EAGAIN) {
      TRY(wait(POLLIN));
    } else if (reason != EINTR) {
      return sys_failure("receive from the server", reason);
    }
  }
}

Result<ClientAnswer> parse_answer_head(std::string_view head) {
  ClientAnswer answer;
  const std::size_t line_end = head.find("\r\n");
  const std::string_view line = head.substr(0, line_end);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (line.size() < 12 || !line.starts_with("HTTP/1.") || line[8] != ' ' ||
      !std::all_of(line.begin() + 9, line.begin() + 12, is_digit) ||
      (line.size() > 12 && line[12] != ' ')) {
    return bad_answer("its first line");
  }
  for (std::size_t i = 9; i < 12; ++i) {
    answer.status = answer.status * 10 + static_cast<unsigned>(line[i] - '0');
  }
  head.remove_prefix(line_end + 2);
  while (head != "\r\n") {
    const std::size_t end = head.find("\r\n");
    if (end == std::string_view::npos) return bad_answer("a line without an end");
    const std::string_view field = head.substr(0, end);
    const std::size_t colon = field.find(':');
    if (colon == std::string_view::npos || !is_field_name(field.substr(0, colon)) ||
        !is_field_value(field)) {
      return bad_answer("a header field");
    }
    answer.fields.push_back(
        Field{std::string(field.substr(0, colon)), std::string(trim(field.substr(colon + 1)))});
    head.remove_prefix(end + 2);
  }
  const std::string_view length = answer.field("Content-Length");
  if (!length.empty()) {
    constexpr std::size_t kDigitsMax = 18;
    if (length.size() > kDigitsMax || !std::all_of(length.begin(), length.end(), is_digit)) {
      return bad_answer("Content-Length");
    }
    answer.length = std::stoull(std::string(length));
  }
  return answer;
}

Result<ClientAnswer> ClientLink::read_head() {
  constexpr int kInterimMax = 16;
  for (int interim = 0; interim < kInterimMax; ++interim) {
    std::size_t end = 0;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
      if (in_.size() > kAnswerHeadBytesMax) return bad_answer("its head is too large");
      if (!TRY(fill())) {
        return failure(Errc::Gone, "the server closed the connection without an answer");
      }
    }
    if (end > kAnswerHeadBytesMax) return bad_answer("its head is too large");
    ClientAnswer answer = TRY(parse_answer_head(std::string_view(in_).substr(0, end + 4)));
    in_.erase(0, end + 4);
    if (answer.status >= 200 || answer.status == 101) return answer;
  }
  return bad_answer("too many interim answers");
}

Result<bool> ClientLink::read_chunked(const Reader& reader) {
  ChunkDecoder decoder;
  std::string out;
  for (;;) {
    out.resize(in_.size());
    const auto step = decoder.decode(in_, std::as_writable_bytes(std::span(out)));
    if (!step) return bad_answer(step.error().message.c_str());
    in_.erase(0, step->consumed);
    if (step->produced > 0 && !TRY(reader(std::string_view(out).substr(0, step->produced)))) {
      return false;
    }
    if (step->done) return true;
    if (!TRY(fill())) return left_early();
  }
}

Result<bool> ClientLink::read_sized(std::uint64_t left, const Reader& reader) {
  while (left > 0) {
    if (in_.empty() && !TRY(fill())) return left_early();
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, in_.size()));
    if (!TRY(reader(std::string_view(in_).substr(0, size)))) return false;
    in_.erase(0, size);
    left -= size;
  }
  return true;
}

Result<bool> ClientLink::read_to_end(const Reader& reader) {
  do {
    if (!in_.empty() && !TRY(reader(in_))) return false;
    in_.clear();
  } while (TRY(fill()));
  return false;
}

Result<bool> ClientLink::read_body(std::string_view method, const ClientAnswer& answer,
                                   const Reader& reader) {
  const bool keep = !has_token(answer.field("Connection"), "close");
  if (method == "HEAD" || answer.status < 200 || answer.status == 204 || answer.status == 304) {
    return keep;
  }
  bool whole = false;
  const std::string_view encoding = answer.field("Transfer-Encoding");
  if (!encoding.empty()) {
    if (!same_name(encoding, "chunked")) return bad_answer("Transfer-Encoding");
    whole = TRY(read_chunked(reader));
  } else if (answer.length) {
    whole = TRY(read_sized(*answer.length, reader));
  } else {
    whole = TRY(read_to_end(reader));
  }
  return whole && keep;
}

}  // namespace caisson::http
