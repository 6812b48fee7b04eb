// What an interpreter of a sandbox says, in any pieces, gives the same frames or the same refusal
// as in one piece; no frame is larger than its limit, and what is read of a payload holds what is
// promised of it. The first byte says how large the pieces are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "control/interpreters/wire.h"

namespace {

using namespace caisson::control;
using namespace caisson::control::interpreters;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Told {
  std::vector<Frame> frames;
  bool refused = false;

  friend bool operator==(const Told&, const Told&) = default;
};

Told told(std::string_view bytes, std::size_t piece) {
  FrameReader reader;
  Told out;
  while (!bytes.empty() && !out.refused) {
    reader.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      auto next = reader.next();
      out.refused = !next;
      if (!next || !*next) break;
      require((*next)->payload.size() <= kFrameBytesMax);
      out.frames.push_back(**std::move(next));
    }
  }
  return out;
}

void read(std::string_view text) {
  CodeOutcome outcome;
  if (parse_answer(text, outcome)) {
    require(outcome.outputs.size() <= kCodeOutputsMax);
    for (const CodeOutput& one : outcome.outputs) require(!one.data.empty());
    require(!outcome.value || outcome.value->size() <= kTextBytesMax);
  }
  if (const auto done = parse_done(text)) require(done->exit_code >= -1 && done->exit_code <= 255);
  if (const auto hello = parse_hello(text)) require(hello->warnings.size() <= kWarningsMax);
  (void)parse_opened(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Told whole = told(bytes, bytes.size());
  require(told(bytes, std::size_t{data[0]} + 1) == whole);
  for (const Frame& one : whole.frames) read(one.payload);
  read(bytes);
  return 0;
}
