#include "doors/grpc/utf8_fault.h"

#include <fmt/format.h>

#include "doors/shared/text.h"

namespace caisson::grpc {
namespace {

std::string words(std::string_view bytes, std::size_t from, std::size_t to, const char* why) {
  if (to - from == 1)
    return fmt::format("'utf-8' codec can't decode byte 0x{:02x} in position {}: {}",
                       static_cast<unsigned char>(bytes[from]), from, why);
  return fmt::format("'utf-8' codec can't decode bytes in position {}-{}: {}", from, to - 1, why);
}

}  // namespace

std::string utf8_fault(std::string_view bytes) {
  doors::Utf8Machine machine;
  std::size_t begun = 0;  // of the character that is being read
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (machine.whole()) begun = at;
    switch (machine.take(static_cast<unsigned char>(bytes[at]))) {
      case doors::Utf8Machine::Step::Done:
      case doors::Utf8Machine::Step::More:
        break;
      case doors::Utf8Machine::Step::Bad:
        return words(bytes, at, at + 1, "invalid start byte");
      case doors::Utf8Machine::Step::BadBefore:
        return words(bytes, begun, at, "invalid continuation byte");
    }
  }
  if (!machine.whole()) return words(bytes, begun, bytes.size(), "unexpected end of data");
  return {};
}

}  // namespace caisson::grpc
