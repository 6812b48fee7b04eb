// What a server may say to a carrier: requests, which reach init whole, or the end of its stream.
// Whatever it says, init is told whole frames alone, and none of the carrier's own but Reset. The
// first byte says in which pieces the rest arrives.
#include <algorithm>
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
  void tell(const void*, size_t) override {}
  void ask(std::uint32_t, const wire::Endpoint&, wire::Bytes) override {}
  void drop_server() override { dropped = true; }
  bool dropped = false;
};

void hear(Core& core) {
  const wire::Bytes heard = core.for_init();
  wire::Bytes left = heard;
  while (left.size != 0) {
    wire::FrameHeader header{};
    require(wire::scan_carried_request(left, header) == wire::Scan::Frame);
    require(wire::is_request(header) ||
            header.kind == static_cast<std::uint16_t>(wire::Kind::Reset) ||
            header.kind == static_cast<std::uint16_t>(wire::Kind::Configure));
    left = {left.data + sizeof(header) + header.size, left.size - sizeof(header) - header.size};
  }
  core.init_took(heard.size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t step = std::size_t{data[0]} * 16 + 1;
  static std::vector<std::uint8_t> memory(Core::kMemoryBytes);
  static std::vector<std::uint8_t> connections(caisson::carried::Streams::kMemoryBytes);
  caisson::carried::Wires wires;
  World world;
  Core core(world, wires, memory.data(), connections.data(), 1);
  // Also as a message of the launcher's, whom nobody distrusts; it is checked all the same.
  (void)core.control({data, size});
  struct {
    wire::ControlHeader header{wire::kVersion,
                               static_cast<std::uint32_t>(wire::ControlKind::Config)};
    wire::InitConfig config{};
  } message;
  (void)core.control({reinterpret_cast<const std::uint8_t*>(&message), sizeof(message)});
  hear(core);
  core.attach();
  for (std::size_t at = 1; at < size;) {
    if (world.dropped) {
      core.attach();
      world.dropped = false;
    }
    const Piece space = core.server_space();
    const std::size_t part = std::min({step, size - at, space.size});
    if (part == 0 || !core.wants_server()) break;
    std::memcpy(space.data, data + at, part);
    core.server_gave(part);
    at += part;
    hear(core);
  }
  return 0;
}
