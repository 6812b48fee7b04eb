// What a hostile init may say to its carrier: frames of init's, which reach the server whole and
// unchanged, words about connections that keep the rules, or the end of the sandbox. The first byte
// says in which pieces the rest arrives, the second when the server changes.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "guest/carried/wires_test.h"
#include "guest/carrier/core.h"

namespace {

namespace wire = caisson::wire;
using caisson::carrier::Core;
using caisson::carrier::Hands;
using caisson::carrier::Piece;

void require(bool holds) {
  if (!holds) std::abort();
}

class World final : public Hands {
 public:
  void tell(const void* message, size_t size) override {
    wire::ControlHeader header{};
    require(size >= sizeof(header));
    std::memcpy(&header, message, sizeof(header));
    require(header.version == wire::kVersion);
  }
  void ask(std::uint32_t, const wire::Endpoint&, wire::Bytes) override {}
  void drop_server() override {}
};

void configure(Core& core) {
  struct {
    wire::ControlHeader header{wire::kVersion,
                               static_cast<std::uint32_t>(wire::ControlKind::Config)};
    wire::InitConfig config{};
  } message;
  message.config.flags = wire::kConfigCarryNetwork;
  require(core.control({reinterpret_cast<const std::uint8_t*>(&message), sizeof(message)}));
}

// Answers the Reset that lies at the end of what init is told.
void resume(Core& core) {
  const wire::Bytes told = core.for_init();
  const std::size_t size = sizeof(wire::FrameHeader) + sizeof(wire::ResetBody);
  require(told.size >= size);
  std::vector<std::uint8_t> answer(told.data + told.size - size, told.data + told.size);
  const auto kind = static_cast<std::uint16_t>(wire::Kind::Resumed);
  std::memcpy(answer.data() + offsetof(wire::FrameHeader, kind), &kind, sizeof(kind));
  core.init_took(told.size);
  const Piece space = core.init_space();
  if (space.size < answer.size()) return;
  std::memcpy(space.data, answer.data(), answer.size());
  core.init_gave(answer.size());
}

// And init nothing but whole frames of its carrier's.
void init_hears(Core& core) {
  const wire::Bytes heard = core.for_init();
  wire::Bytes left = heard;
  while (left.size != 0) {
    wire::FrameHeader header{};
    require(wire::scan_carried_request(left, header) == wire::Scan::Frame);
    left = {left.data + sizeof(header) + header.size, left.size - sizeof(header) - header.size};
  }
  core.init_took(heard.size);
}

// A server takes nothing but whole frames of init's.
void hear(Core& core) {
  const wire::Bytes heard = core.for_server();
  wire::Bytes left = heard;
  while (left.size != 0) {
    wire::FrameHeader header{};
    require(wire::scan_reply(left, header) == wire::Scan::Frame && wire::is_reply(header));
    left = {left.data + sizeof(header) + header.size, left.size - sizeof(header) - header.size};
  }
  core.server_took(heard.size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t step = std::size_t{data[0]} * 16 + 1;
  const std::size_t changes = std::size_t{data[1]} + 1;
  static std::vector<std::uint8_t> memory(Core::kMemoryBytes);
  static std::vector<std::uint8_t> connections(caisson::carried::Streams::kMemoryBytes);
  caisson::carried::Wires wires;
  World world;
  Core core(world, wires, memory.data(), connections.data(), 1);
  configure(core);
  core.attach();
  resume(core);
  std::size_t turn = 0;
  for (std::size_t at = 2; at < size && core.state() == Core::State::Serving; ++turn) {
    if (turn % changes == changes - 1) {
      core.attach();
      resume(core);
    }
    const Piece space = core.init_space();
    const std::size_t part = std::min({step, size - at, space.size});
    require(part != 0);
    std::memcpy(space.data, data + at, part);
    core.init_gave(part);
    at += part;
    hear(core);
    // A connection that stands has something to say, and one takes little.
    const std::uint32_t slot = data[at - 1] % 8;
    wires.answer = data[at - 1] % 16 == 15   ? -ECONNREFUSED
                   : data[at - 1] % 16 == 14 ? -EINPROGRESS
                                             : 0;
    if (core.streams().dialing(slot)) core.streams().dialled(slot, 0);
    wires.all[slot].in.assign(data[at - 1], 'b');
    wires.all[slot].takes = data[at - 1];
    wires.all[slot].ended = data[at - 1] % 3 == 0;
    core.streams().readable(slot);
    core.streams().writable(slot);
    core.pump();
    init_hears(core);
  }
  return 0;
}
