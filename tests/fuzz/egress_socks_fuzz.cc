// Any bytes as a SOCKS5 client: in one piece and in many they give the same answer. The first byte
// says how many pieces, and whether a login is wanted and accepted.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "egress/wire/socks5.h"

namespace {

using namespace caisson::egress;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Talk {
  SocksParser parser;
  Buffer replies;
  std::size_t consumed;
};

Talk play(Bytes bytes, SocksAuth auth, bool accept, std::size_t step) {
  Talk out{SocksParser(auth), {}, 0};
  std::size_t shown = 0;
  while (shown < bytes.size()) {
    shown = std::min(shown + step, bytes.size());
    for (;;) {
      const SocksStep got = out.parser.feed(bytes.subspan(out.consumed, shown - out.consumed));
      require(got.consumed <= shown - out.consumed && got.state == out.parser.state());
      out.consumed += got.consumed;
      put_bytes(out.replies, got.reply);
      if (got.state != SocksState::Credentials) break;
      put_bytes(out.replies, out.parser.credentials(accept).reply);
    }
    if (out.parser.state() != SocksState::NeedMore) break;
    require(out.consumed == shown);
  }
  return out;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const SocksAuth auth = (data[0] & 1) != 0 ? SocksAuth::UserPassword : SocksAuth::None;
  const bool accept = (data[0] & 2) != 0;
  const std::size_t step = std::size_t{1} + (data[0] >> 2);
  const Bytes bytes(data + 1, size - 1);
  const Talk whole = play(bytes, auth, accept, bytes.size() + 1);
  const Talk pieces = play(bytes, auth, accept, step);
  require(whole.parser.state() == pieces.parser.state());
  require(whole.replies == pieces.replies);
  if (whole.parser.state() == SocksState::Refused) {
    require(whole.parser.fault() == pieces.parser.fault());
  }
  if (whole.parser.state() != SocksState::Done) return 0;
  require(whole.consumed == pieces.consumed && whole.parser.port() != 0);
  require(whole.parser.target() == pieces.parser.target());
  return 0;
}
