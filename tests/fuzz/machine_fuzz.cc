// Any bytes as what a monitor says, and as a packed kernel or one of its modules: they are read
// within their limits, and what is found in JSON lies within it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/microvm/kernel_image.h"
#include "engine/microvm/kernel_modules.h"
#include "engine/microvm/lz4.h"
#include "engine/microvm/qmp_json.h"
#include "engine/microvm/vm_store.h"

namespace {

namespace microvm = caisson::engine::microvm;

constexpr std::size_t kUnpackedMax = 1UL << 20U;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_json(std::string_view text) {
  if (!microvm::is_json(text)) return;
  for (const std::string_view key : {"return", "error", "event", "QMP"}) {
    const auto value = microvm::json_at(text, {key});
    if (!value) continue;
    require(value->data() >= text.data() &&
            value->data() + value->size() <= text.data() + text.size());
    require(microvm::is_json(*value));
    const auto word = microvm::json_string(*value);
    require(!word || word->size() <= value->size());
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  check_json(text);
  if (const auto unpacked = microvm::from_lz4(bytes, kUnpackedMax); unpacked)
    require(unpacked->size() <= kUnpackedMax);
  if (const auto unpacked = microvm::unpack(bytes, kUnpackedMax); unpacked)
    require(unpacked->size() <= kUnpackedMax);
  (void)microvm::extract_kernel(bytes);
  if (const auto names = microvm::dependencies_of(bytes); names)
    for (const std::string& name : *names) require(name.size() <= size);
  (void)microvm::parse_about(text);
  (void)microvm::module_name(text);
  return 0;
}
