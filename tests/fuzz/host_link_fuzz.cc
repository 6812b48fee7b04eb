// What a hostile init may send to the host: frames within the credit we gave, or the link's death.
// The first byte says in which pieces the rest arrives.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "engine/link/guest_link.h"

namespace {

namespace wire = caisson::wire;
using caisson::UniqueFd;
using caisson::engine::Frame;
using caisson::engine::GuestLink;

constexpr std::uint64_t kWindow = 4096;

void require(bool holds) {
  if (!holds) std::abort();
}

// Requests whose answers a guest could forge.
void ask(GuestLink& link) {
  caisson::engine::StartOptions start;
  start.argv = {"true"};
  start.flags = wire::kStartAttach | wire::kStartAutoForget | wire::kStartStdin;
  start.window_bytes = kWindow;
  require(link.start(1, start).has_value());
  start.mode = wire::Mode::Collect;
  start.ring_bytes = wire::kRingBytesMin;
  require(link.start(2, start).has_value());
  caisson::engine::OpOptions op;
  op.op = wire::OpKind::Read;
  op.path = "/f";
  op.window_bytes = kWindow;
  require(link.operate(3, op).has_value());
}

std::uint64_t look_at(const Frame& frame) {
  wire::EntryView entry{};
  wire::EventView event{};
  wire::FailedView failed{};
  wire::MatchView match{};
  wire::ListEntryView listed{};
  (void)wire::parse_entry(frame.bytes(), entry);
  (void)wire::parse_event(frame.bytes(), event);
  (void)wire::parse_match(frame.bytes(), match);
  (void)wire::parse_list_entry(frame.bytes(), listed);
  if (wire::parse_failed(frame.bytes(), failed)) {
    for (const char byte : caisson::engine::error_of(failed).message)
      require(byte != '\n' && byte != '\x1b');
  }
  return frame.kind == wire::Kind::Data ? frame.payload.size() - sizeof(wire::DataHeader) : 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t step = std::size_t{data[0]} * 16 + 1;
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  const UniqueFd peer(ends[1]);
  GuestLink link(UniqueFd(ends[0]), caisson::engine::Nonce{});
  ask(link);
  std::uint64_t received = 0;
  for (std::size_t at = 1; at < size && !link.death(); at += step) {
    const std::size_t part = std::min(step, size - at);
    require(::send(peer.get(), data + at, part, MSG_NOSIGNAL) == static_cast<ssize_t>(part));
    (void)link.on_readable();
    for (auto next = link.next(); next && *next; next = link.next()) received += look_at(**next);
  }
  // Two streams of a process, two of a collected one, one of a file.
  require(received <= 2 * kWindow + 2 * wire::kRingBytesMin + kWindow);
  return 0;
}
