// A form in any pieces is refused, or becomes the same parts as in one piece, in the right order
// and within the limits. The first byte says how large the pieces are, the second how long the
// boundary is that follows.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/multipart.h"

namespace {

using namespace caisson::http;
using Kind = Multipart::Event::Kind;

void require(bool holds) {
  if (!holds) std::abort();
}

// What was told, as one text; or that it was refused.
std::string told(const std::string& boundary, std::string_view body, std::size_t piece) {
  Multipart form(boundary);
  std::string out;
  bool open = false;
  std::size_t parts = 0;
  for (;;) {
    const auto event = form.next();
    if (!event) return "refused";
    switch (event->kind) {
      case Kind::NeedMore: {
        if (body.empty()) return form.finish() ? out : "refused";
        const std::string_view next = body.substr(0, piece);
        form.feed(next);
        body.remove_prefix(next.size());
        break;
      }
      case Kind::PartBegin:
        require(!open && ++parts <= kPartsMax);
        open = true;
        out += "[" + event->name + "|" + event->filename.value_or("-") + "|";
        break;
      case Kind::Data:
        require(open);
        out += event->bytes;
        break;
      case Kind::PartEnd:
        require(open);
        open = false;
        out += "]";
        break;
      case Kind::End:
        require(!open);
        return out;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::size_t piece = 1 + data[0];
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t length = std::min<std::size_t>(1 + data[1] % kBoundaryBytesMax, rest.size());
  const std::string boundary(rest.substr(0, length));
  const std::string_view body = rest.substr(length);
  require(told(boundary, body, piece) == told(boundary, body, size));
  (void)multipart_boundary(rest);
  return 0;
}
