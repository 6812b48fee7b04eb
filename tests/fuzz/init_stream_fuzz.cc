// What a host may send to init: any bytes are frames of the right size, or the stream's end; a
// request that passes its check can be walked to its last string without leaving the payload.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "guest/protocol/codec.h"

namespace {

namespace wire = caisson::wire;

void require(bool holds) {
  if (!holds) std::abort();
}

bool inside(wire::Bytes part, wire::Bytes whole) {
  return part.size == 0 ||
         (part.data >= whole.data && part.data + part.size <= whole.data + whole.size);
}

void walk_strings(wire::Bytes covered, std::uint32_t count, wire::Bytes payload) {
  wire::Reader reader(covered);
  for (std::uint32_t i = 0; i < count; ++i) {
    wire::Bytes text;
    require(reader.take_string(text) && inside(text, payload));
    for (std::size_t at = 0; at < text.size; ++at) require(text.data[at] != 0);
  }
  require(reader.left() == 0);
}

void check_start(wire::Bytes payload) {
  wire::StartView view;
  if (wire::parse_start(payload, view) != wire::Check::Ok) return;
  require(view.body.argc >= 1 && view.body.argc <= wire::kArgsMax &&
          view.body.envc <= wire::kArgsMax);
  require(view.cwd.size <= wire::kPathMax && view.cwd.data[0] == '/');
  require(view.groups.size == view.body.group_count * sizeof(std::uint32_t));
  walk_strings(view.argv, view.body.argc, payload);
  walk_strings(view.env, view.body.envc, payload);
}

void check_op(wire::Bytes payload) {
  wire::OpView view;
  if (wire::parse_op(payload, view) != wire::Check::Ok) return;
  require(inside(view.path, payload) && inside(view.path2, payload));
  require(view.path.size >= 1 && view.path.size <= wire::kPathMax &&
          view.path2.size <= wire::kPathMax);
  const bool socket = (view.body.flags & wire::kOpSocket) != 0;
  require(!socket || view.body.op == static_cast<std::uint32_t>(wire::OpKind::Write));
  const bool tells = (view.body.flags & wire::kOpTell) != 0;
  require(!tells || view.body.op == static_cast<std::uint32_t>(wire::OpKind::TarIn));
}

void check_commit(wire::Bytes payload) {
  wire::CommitBody body{};
  require(wire::parse_exact(payload, body));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  wire::Bytes left{data, size};
  for (;;) {
    wire::FrameHeader header{};
    const wire::Scan scan = wire::scan_request(left, header);
    if (scan != wire::Scan::Frame) break;
    require(header.size <= wire::kPayloadMax && sizeof(header) + header.size <= left.size);
    const wire::Bytes payload{left.data + sizeof(header), header.size};
    if (header.kind == static_cast<std::uint16_t>(wire::Kind::Start)) check_start(payload);
    if (header.kind == static_cast<std::uint16_t>(wire::Kind::Op)) check_op(payload);
    if (header.kind == static_cast<std::uint16_t>(wire::Kind::Commit)) check_commit(payload);
    left = {payload.data + payload.size, left.size - sizeof(header) - payload.size};
  }
  // The same bytes without a frame around them: the checks do not lean on the frame's.
  check_start({data, size});
  check_op({data, size});
  return 0;
}
