// Any bytes as the beginning of a TLS connection: in one piece and in many they give the same
// answer, and what is Done has at most one name, which is a host. The first byte says how many.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "egress/wire/client_hello.h"

namespace {

using namespace caisson::egress;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = std::size_t{1} + data[0];
  const Bytes bytes(data + 1, size - 1);
  HelloParser whole;
  (void)whole.feed(bytes);
  HelloParser pieces;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    (void)pieces.feed(bytes.subspan(at, std::min(step, bytes.size() - at)));
  }
  require(whole.state() == pieces.state());
  require(whole.consumed() == pieces.consumed() && whole.consumed() <= kHelloBytesMax);
  if (whole.state() == HelloState::Refused) require(whole.fault() == pieces.fault());
  if (whole.state() != HelloState::Done) return 0;
  const ClientHello& hello = whole.hello();
  require(hello.server_name == pieces.hello().server_name);
  require(hello.protocols.size() <= kHelloProtocolsMax);
  if (hello.server_name) require(HostName::parse(hello.server_name->text()).has_value());
  return 0;
}
