// A body of gRPC or gRPC-Web in any pieces gives the same messages, or the same fault, as in one
// piece; none is larger than the limit, and what we frame is read back. The first byte says how
// large the pieces are, the second how large a message may be.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "doors/grpc/frame.h"

namespace {

using namespace caisson::grpc;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Told {
  std::vector<std::string> messages;
  MessageCutter::Fault fault = MessageCutter::Fault::None;
  bool half = false;

  friend bool operator==(const Told&, const Told&) = default;
};

Told told(std::string_view body, std::size_t piece, std::size_t max) {
  MessageCutter cutter(max);
  Told out;
  while (!body.empty()) {
    cutter.feed(body.substr(0, piece));
    body.remove_prefix(std::min(piece, body.size()));
    while (auto message = cutter.next()) {
      require(message->size() <= max);
      out.messages.push_back(*std::move(message));
    }
  }
  out.fault = cutter.fault();
  out.half = cutter.half();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t max = std::size_t{data[1]} * 16;
  const Told whole = told(body, body.size(), max);
  require(told(body, std::size_t{data[0]} + 1, max) == whole);

  std::string again;
  for (const std::string& message : whole.messages) {
    const std::size_t begun = begin_frame(again);
    again += message;
    end_frame(again, begun);
  }
  require(body.starts_with(again));

  (void)timeout_microseconds(body);
  for (const char c : percent_encode(body)) require(c >= ' ' && c <= '~');
  return 0;
}
