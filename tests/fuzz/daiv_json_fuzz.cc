// A body of JSON in any pieces is what it is in one piece: the same value, or the same complaint at
// the same place. What it holds stays within its limits. The first byte says how large the pieces
// are.
#include <boost/json/serialize.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "doors/shared/json_input.h"

namespace {

using namespace caisson::doors;

constexpr JsonLimits kLimits{4096, 4096, true};

void require(bool holds) {
  if (!holds) std::abort();
}

std::string told(std::string_view body, std::size_t piece) {
  JsonInput input(kLimits, "archive");
  std::string handed;
  const auto take = [&] {
    auto next = input.take_piece();
    if (next.fresh) handed.clear();
    handed += next.text;
  };
  JsonInput::Status status = JsonInput::Status::Good;
  while (!body.empty() && status == JsonInput::Status::Good) {
    status = input.feed(body.substr(0, piece));
    body.remove_prefix(std::min(piece, body.size()));
    take();
    require(input.held() <= kLimits.text_bytes_max + kLimits.other_bytes_max + 2);
  }
  if (status == JsonInput::Status::Good) status = input.finish();
  take();
  switch (status) {
    case JsonInput::Status::Good:
      return boost::json::serialize(input.take()) + "\n" + handed;
    case JsonInput::Status::Wrong:
      require(!input.reason().empty());
      return input.reason() + "@" + std::to_string(input.at());
    case JsonInput::Status::Unreadable:
      return "unreadable";
    case JsonInput::Status::TooLarge:
      return "too large";
  }
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  require(told(body, 1 + data[0]) == told(body, size));
  return 0;
}
