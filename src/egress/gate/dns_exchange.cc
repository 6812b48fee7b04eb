#include "egress/gate/dns_exchange.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <vector>

#include "egress/gate/deadline.h"
#include "egress/gate/dial.h"
#include "egress/gate/socket_address.h"
#include "egress/gate/stream.h"

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

// What both transports need: a socket, its time limit, and what was asked.
struct Question {
  Question(const asio::any_io_executor& executor, NameServer the_server, HostName the_host,
           DnsType the_type)
      : server(the_server),
        host(std::move(the_host)),
        type(the_type),
        stream(executor),
        deadline(executor, [this] { stream.cancel(); }) {}

  NameServer server;
  HostName host;
  DnsType type;
  std::uint16_t id = 0;
  Stream stream;
  Deadline deadline;
};

Result<std::uint16_t> random_id() {
  std::uint16_t id = 0;
  if (::getrandom(&id, sizeof id, 0) != sizeof id) return sys_failure("getrandom", errno);
  return id;
}

std::unexpected<Error> no_answer(const Question& question) {
  if (question.deadline.passed()) {
    return failure(Errc::TimedOut, "the name server does not answer");
  }
  return failure(Errc::Gone, "the name server cannot be reached");
}

Result<void> open_udp(Question& question) {
  const KernelAddress to = to_kernel(question.server.address, question.server.port);
  UniqueFd fd(::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return sys_failure("socket", errno);
  // Connected, so that packets of others do not even arrive.
  if (::connect(fd.get(), to.get(), to.size) != 0) return sys_failure("connect", errno);
  return question.stream.assign(std::move(fd));
}

asio::awaitable<Result<UpstreamAnswer>> ask_udp(Question& question) {
  const auto opened = open_udp(question);
  if (!opened) co_return std::unexpected(opened.error());
  const Buffer query = build_upstream_query(question.id, question.host, question.type);
  if (question.stream.try_write(as_text(query)).state != IoState::Moved) {
    co_return failure(Errc::Gone, "the name server cannot be reached");
  }
  std::string packet(kDnsUdpBytesMax + 1, '\0');
  for (int stray = 0; stray < kStrayAnswersMax;) {
    const Io got = question.stream.try_read(packet.data(), packet.size());
    if (got.state == IoState::WouldBlock) {
      if (question.deadline.passed() || !co_await question.stream.wait_read()) {
        co_return no_answer(question);
      }
      continue;
    }
    // Refused by the kernel of the other side. An empty packet is one, not the end of a stream.
    if (got.state == IoState::Broken) co_return no_answer(question);
    auto answer = parse_upstream_answer(as_bytes(std::string_view(packet).substr(0, got.bytes)),
                                        question.id, question.host, question.type);
    if (answer) co_return std::move(*answer);
    ++stray;
  }
  co_return failure(Errc::Protocol, "the name server sends something else");
}

asio::awaitable<bool> send_all(Question& question, std::string_view bytes) {
  while (!bytes.empty()) {
    const Io sent = question.stream.try_write(bytes);
    bytes.remove_prefix(sent.bytes);
    if (sent.state == IoState::Broken) co_return false;
    if (sent.state == IoState::WouldBlock && !co_await question.stream.wait_write()) {
      co_return false;
    }
  }
  co_return true;
}

asio::awaitable<Result<UpstreamAnswer>> ask_tcp(Question& question, milliseconds limit) {
  std::vector<IpAddress> to{question.server.address};
  const auto dialled =
      co_await dial(question.stream, question.deadline, std::move(to), question.server.port, limit);
  if (!dialled) co_return std::unexpected(dialled.error());
  question.deadline.set(limit);
  const Buffer query =
      with_dns_tcp_length(build_upstream_query(question.id, question.host, question.type));
  if (!co_await send_all(question, as_text(query))) co_return no_answer(question);
  std::string in;
  for (;;) {
    const auto size = dns_tcp_message(as_bytes(in), kDnsTcpBytesMax);
    if (!size) co_return failure(Errc::Protocol, "the name server's answer is no message");
    if (*size) {
      auto answer = parse_upstream_answer(as_bytes(std::string_view(in).substr(2, **size)),
                                          question.id, question.host, question.type);
      if (answer && !answer->truncated) co_return std::move(*answer);
      co_return failure(Errc::Protocol, "the name server answers something else");
    }
    constexpr std::size_t kPieceBytes = 4096;  // dns_tcp_message() bounds the whole
    const std::size_t had = in.size();
    in.resize(had + kPieceBytes);
    const Io got = question.stream.try_read(in.data() + had, kPieceBytes);
    in.resize(had + got.bytes);
    if (got.state == IoState::Moved) continue;
    if (got.state != IoState::WouldBlock || question.deadline.passed()) {
      co_return no_answer(question);
    }
    if (!co_await question.stream.wait_read()) co_return no_answer(question);
  }
}

}  // namespace

asio::awaitable<Result<UpstreamAnswer>> ask_name_server(asio::any_io_executor executor,
                                                        NameServer server, HostName host,
                                                        DnsType type, milliseconds limit) {
  Question question(executor, server, std::move(host), type);
  const auto id = random_id();
  if (!id) co_return std::unexpected(id.error());
  question.id = *id;
  question.deadline.set(limit);
  auto answer = co_await ask_udp(question);
  if (!answer || !answer->truncated) co_return answer;
  auto whole = co_await ask_tcp(question, limit);
  co_return whole;
}

}  // namespace caisson::egress
