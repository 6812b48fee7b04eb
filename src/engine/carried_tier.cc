#include "engine/carried_tier.h"

#include <vector>

#include "guest/protocol/protocol.h"
#include "sys/file.h"
#include "sys/socket.h"

namespace caisson::engine {
namespace {

std::unexpected<Error> keeps_no_memory(const LaunchRequest& request) {
  return failure(Errc::Unsupported, "memory: the tier '" + std::string(tier_name(request.tier)) +
                                        "' keeps files and not processes in this version");
}

template <class T>
void append(std::vector<std::byte>& out, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

Result<void> tell_identity(const native::Sandbox& sandbox, const LaunchRequest& request) {
  const std::string& name = request.hostname.empty() ? request.id : request.hostname;
  wire::ControlIdentity identity{};
  identity.header = {wire::kVersion, static_cast<std::uint32_t>(wire::ControlKind::Identity)};
  TRY(sys::random_bytes(std::as_writable_bytes(std::span(identity.body.seed))));
  identity.body.hostname_size = static_cast<std::uint32_t>(name.size());
  std::vector<std::byte> message;
  append(message, std::span<const wire::ControlIdentity>(&identity, 1));
  append(message, std::span<const char>(name));
  return sys::send_message(sandbox.control(), message, {});
}

Result<std::string> CarriedTier::memory_runtime(const LaunchRequest& request) {
  return keeps_no_memory(request);
}

Result<sys::Child> CarriedTier::save(const MemorySave& wish) {
  return keeps_no_memory(wish.request);
}

Result<MemoryKept> CarriedTier::saved(const MemorySave& wish, bool /*whole*/) {
  return keeps_no_memory(wish.request);
}

Result<void> CarriedTier::go_on(const MemorySave& wish) { return keeps_no_memory(wish.request); }

}  // namespace caisson::engine
