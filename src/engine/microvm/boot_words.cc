#include "engine/microvm/boot_words.h"

#include <fmt/format.h>

#include <cstring>

namespace caisson::engine::microvm {
namespace {

// init and one of its helpers live beside what was asked for.
constexpr std::uint32_t kOwnProcesses = 2;

void append(std::vector<std::byte>& out, const void* bytes, std::size_t size) {
  const auto* begin = static_cast<const std::byte*>(bytes);
  out.insert(out.end(), begin, begin + size);
}

void append_path(std::vector<std::byte>& out, const std::string& path) {
  const auto size = static_cast<std::uint32_t>(path.size());
  append(out, &size, sizeof(size));
  append(out, path.data(), path.size());
}

std::unexpected<Error> not_in_a_machine(std::string_view field, std::string_view what) {
  Error error{Errc::Unsupported, fmt::format("{}: {}; use the native tier", field, what), 0,
              std::string(field)};
  return std::unexpected(std::move(error));
}

}  // namespace

Result<void> check_machine_request(const LaunchRequest& request) {
  if (!request.folders.empty())
    return not_in_a_machine("folders",
                            "a microVM cannot show folders of the host (caisson run: --no-folder)");
  if (!request.store_mounts.empty())
    return not_in_a_machine("volumes", "a microVM cannot mount volumes and layers of the store");
  // What goes on from a kept memory brings its disk along.
  if ((request.persistent || request.resume) && request.memory.name.empty())
    return not_in_a_machine("persistent", "a microVM's disk goes with it");
  if (request.program != Program::Init)
    return failure(Errc::Internal, "a microVM runs init and nothing else");
  return {};
}

Result<std::vector<std::byte>> boot_record(const LaunchRequest& request, const BootSeed& seed) {
  wire::BootRecord head{};
  head.magic = wire::kBootMagic;
  head.version = wire::kBootVersion;
  head.flags = (request.root == RootMode::Writable ? wire::kBootWritableRoot : 0U) |
               (request.scratch == ScratchMode::ReadOnly ? wire::kBootReadOnlyScratch : 0U) |
               (has_own_workspace(request) ? wire::kBootOwnWorkspace : 0U);
  head.uid = request.uid;
  head.gid = request.gid;
  head.processes = request.limits.processes == 0 ? 0 : request.limits.processes + kOwnProcesses;
  const std::string& hostname = request.hostname.empty() ? request.id : request.hostname;
  head.hostname_size = static_cast<std::uint32_t>(hostname.size());
  head.trust_size = static_cast<std::uint32_t>(request.trust.size());
  head.writable_count = static_cast<std::uint32_t>(request.writable.size());
  head.alias_count = static_cast<std::uint32_t>(request.aliases.size());
  std::memcpy(head.seed, seed.data(), seed.size());
  std::vector<std::byte> out(sizeof(head));
  append(out, hostname.data(), hostname.size());
  append(out, request.trust.data(), request.trust.size());
  for (const std::string& path : request.writable) append_path(out, path);
  for (const Alias& alias : request.aliases) {
    append_path(out, alias.at);
    append_path(out, alias.of);
  }
  if (out.size() > wire::kBootBytesMax)
    return failure(Errc::Exhausted, "the machine's record is longer than 32 KiB");
  head.size = static_cast<std::uint32_t>(out.size());
  std::memcpy(out.data(), &head, sizeof(head));
  return out;
}

}  // namespace caisson::engine::microvm
