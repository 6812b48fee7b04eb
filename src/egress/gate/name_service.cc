#include "egress/gate/name_service.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace caisson::egress {

namespace asio = boost::asio;

namespace {

Passage passage_of_name(std::string name, Verdict verdict, std::uint32_t repeats) {
  Passage passage;
  passage.way = Way::Resolver;
  passage.host = std::move(name);
  passage.port = kResolverPort;
  passage.verdict = std::move(verdict);
  passage.repeats = repeats;
  return passage;
}

Verdict judge_text(const GateCore& core, const std::string& name) {
  const auto host = HostName::parse(name);
  if (host) return decide_name(*host, core.ledger.rules());
  return {Outcome::Deny, Reason::BadTarget, std::nullopt, std::string(to_string(host.error())), {}};
}

// Runs while names are held back, and not longer.
void tick(const std::shared_ptr<GateCore>& core) {
  core->refused_names.ticking = true;
  core->refused_names.timer().expires_after(seconds(1));
  core->refused_names.timer().async_wait([core](const boost::system::error_code& ec) {
    core->refused_names.ticking = false;
    if (ec || core->closed) return;
    tell_held_names(*core, Clock::now());
    if (!core->refused_names.empty()) tick(core);
  });
}

void tell_refused(GateCore& core, std::string name, Verdict verdict) {
  if (core.refused_names.is_new(name, Clock::now())) {
    core.note(passage_of_name(std::move(name), std::move(verdict), 0));
  }
  if (!core.refused_names.ticking) tick(core.shared_from_this());
}

// A wire name as text, for the record: a dot within a label is shown as any other byte.
std::string shown(std::string_view wire) {
  std::string out;
  std::size_t at = 0;
  while (at < wire.size() && wire[at] != 0) {
    const auto size = static_cast<std::size_t>(static_cast<unsigned char>(wire[at]));
    if (!out.empty()) out += '.';
    out += wire.substr(at + 1, size);
    at += size + 1;
  }
  return out;
}

DnsAnswer answer_of(GateCore& core, const DnsQuery& query) {
  if (!query.host) {
    Verdict verdict{Outcome::Deny, Reason::BadTarget, std::nullopt, "no host has this name", {}};
    tell_refused(core, shown(query.name), std::move(verdict));
    return {DnsRcode::NxDomain, {}};
  }
  // Ourselves, on the guest's own loopback: no rule is asked, and no row tells of it.
  if (query.host == core.proxy.name) {
    DnsAnswer here;
    here.addresses = {IpAddress::v4({127, 0, 0, 1})};
    return here;
  }
  Verdict verdict = decide_name(*query.host, core.ledger.rules());
  if (verdict.outcome == Outcome::Deny) {
    tell_refused(core, query.host->text(), std::move(verdict));
    return {DnsRcode::NxDomain, {}};
  }
  const bool wants_address = query.type == static_cast<std::uint16_t>(DnsType::A) ||
                             query.type == static_cast<std::uint16_t>(DnsType::Aaaa);
  if (!wants_address) return {};
  const auto pair = core.book.assign(*query.host);
  if (!pair) return {DnsRcode::ServFail, {}};
  DnsAnswer answer;
  answer.addresses = {pair->v4, pair->v6};
  return answer;
}

void answer_packets(GateCore& core) {
  const int fd = core.name_socket.native_handle();
  std::array<std::uint8_t, kDnsQueryBytesMax + 1> packet;  // NOLINT: filled before it is read
  for (int i = 0; i < kNameBurstMax; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const ssize_t got = ::recvfrom(fd, packet.data(), packet.size(), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&from), &size);
    const int reason = errno;
    if (got < 0 && reason == EINTR) continue;
    if (got < 0) return;
    const Bytes message = Bytes(packet).first(static_cast<std::size_t>(got));
    const auto answer = answer_query(core, message, DnsTransport::Udp);
    if (!answer) continue;
    (void)::sendto(fd, answer->data(), answer->size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&from), size);
  }
}

}  // namespace

void tell_held_names(GateCore& core, TimePoint now) {
  core.refused_names.flush(now, [&](const std::string& name, std::uint32_t times) {
    Verdict verdict = judge_text(core, name);
    verdict.outcome = Outcome::Deny;  // it was, whatever the rules are now
    core.note(passage_of_name(name, std::move(verdict), times - 1));
  });
}

std::optional<Buffer> answer_query(GateCore& core, Bytes message, DnsTransport transport) {
  if (!core.name_queries.take(Clock::now())) return std::nullopt;
  const auto query = parse_dns_query(message);
  if (!query) return build_dns_refusal(query.error(), transport);
  return build_dns_answer(*query, answer_of(core, *query), transport);
}

void serve_names(const std::shared_ptr<GateCore>& core) {
  core->name_socket.async_wait(asio::posix::descriptor_base::wait_read,
                               [core](const boost::system::error_code& ec) {
                                 if (ec || core->closed) return;
                                 answer_packets(*core);
                                 serve_names(core);
                               });
}

asio::awaitable<void> serve_names_tcp(Connection& connection) {
  connection.deadline.set(connection.core->times.first);
  for (;;) {
    const auto size = dns_tcp_message(as_bytes(connection.in), kDnsQueryBytesMax);
    if (!size) co_return;
    if (!*size) {
      if (co_await connection.fill_in() != Fill::More) co_return;
      continue;
    }
    const auto answer =
        answer_query(*connection.core, as_bytes(std::string_view(connection.in).substr(2, **size)),
                     DnsTransport::Tcp);
    connection.in.erase(0, 2 + **size);
    if (!answer) co_return;  // too fast, or not worth an answer
    if (!co_await connection.send_client(as_text(*answer))) co_return;
    connection.deadline.set(connection.core->times.first);
  }
}

}  // namespace caisson::egress
