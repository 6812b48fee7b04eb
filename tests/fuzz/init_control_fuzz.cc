// The launcher's first message to init: a configuration that passes its check can be read to the
// end.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "guest/protocol/codec.h"

namespace {

namespace wire = caisson::wire;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  wire::ConfigView view;
  if (wire::parse_config({data, size}, view) != wire::Check::Ok) return 0;
  require(view.filter.size == std::size_t{view.config.filter_count} * 8);
  wire::Reader reader(view.rules);
  for (std::uint32_t i = 0; i < view.config.rule_count; ++i) {
    wire::LandlockRule rule{};
    wire::Bytes path;
    require(reader.take(rule) && reader.take_bytes(rule.path_size, path));
    require(path.size >= 1 && path.size <= wire::kPathMax && path.data[0] == '/');
    require(path.data >= data && path.data + path.size <= data + size);
  }
  require(reader.left() == 0);
  return 0;
}
