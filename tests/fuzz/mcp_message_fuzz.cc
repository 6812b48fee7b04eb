// A message of a client in any pieces is what it is in one piece, what is read of it stays within
// its limits, and what is said back is one line. The first byte says how large the pieces are.
#include <boost/json/serialize.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "doors/mcp/protocol.h"

namespace {

using namespace caisson::mcp;

void require(bool holds) {
  if (!holds) std::abort();
}

std::string told(std::string_view body, std::size_t piece) {
  MessageReader reader;
  while (!body.empty()) {
    reader.feed(body.substr(0, piece));
    body.remove_prefix(std::min(piece, body.size()));
    require(reader.held() <= kTextBytesMax + kOtherBytesMax + 2);
  }
  const auto message = reader.finish();
  if (!message) {
    const RpcError error{message.error().code, message.error().message, {}};
    return error_text(message.error().id, error);
  }
  require(message->method.size() <= kMethodBytesMax);
  const auto wrong = check_modern(*message, nullptr);
  const std::string answer =
      wrong ? error_text(message->id, *wrong) : result_text(message->id, message->params);
  require(answer.find('\n') == std::string::npos);
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  require(told(body, 1 + data[0]) == told(body, size));
  return 0;
}
