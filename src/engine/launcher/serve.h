// engine/launcher/serve.h — a launcher behind a socket; for many servers in a row see service.h.
// handle() answers one request and knows no socket; serve() feeds it from a connected
// SOCK_SEQPACKET until the peer is gone, keeps the deadlines of the sandboxes meanwhile, and makes
// things ahead when nothing is asked. Then every sandbox is destroyed: a private launcher never
// outlives the program it works for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/launcher/ceiling.h"
#include "engine/launcher/core.h"
#include "engine/launcher/wire.h"
#include "sys/socket.h"

namespace caisson::engine {

struct Answer {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
  std::string id;  // of the sandbox that was made or asked about; empty when that failed
};

[[nodiscard]] Answer handle(LauncherCore& core, sys::Message request,
                            const Ceiling& ceiling = Ceiling::none());

// Requests whose work takes as long as the disk does, and that are answered by handle() after it.
[[nodiscard]] bool needs_errand(std::span<const std::byte> message);
// A child process that does that work; its end is awaited before handle() is asked.
[[nodiscard]] Result<sys::Child> start_errand(LauncherCore& core,
                                              std::span<const std::byte> message);
// Of these, saving and measuring a memory end otherwise: `whole` says whether that child ended
// with 0.
[[nodiscard]] bool is_memory_errand(std::span<const std::byte> message);
// A sandbox of which that request may want that it is silent first; empty for all other requests.
[[nodiscard]] std::string silenced_by(std::span<const std::byte> message);
// The sandbox that one is about to save; empty for everything else.
[[nodiscard]] std::string saved_by(std::span<const std::byte> message);
[[nodiscard]] Answer end_memory_errand(LauncherCore& core, std::span<const std::byte> message,
                                       bool whole);

// The reply to a request that is not carried out.
[[nodiscard]] Answer refuse(launcher_wire::Header header, const Error& error);

[[nodiscard]] Result<void> serve(LauncherCore& core, int socket);

}  // namespace caisson::engine
