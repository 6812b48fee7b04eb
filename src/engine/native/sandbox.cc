#include "engine/native/sandbox.h"

#include <poll.h>

#include <csignal>
#include <cstring>

#include "sys/socket.h"

namespace caisson::engine::native {

Result<UniqueFd> Sandbox::connect() {
  sys::SocketPair pair = TRY(sys::stream_pair());
  const wire::ControlHeader header{wire::kVersion,
                                   static_cast<std::uint32_t>(wire::ControlKind::Attach)};
  const int theirs = pair.theirs.get();
  TRY(sys::send_message(control_.get(), std::as_bytes(std::span(&header, 1)),
                        std::span(&theirs, 1)));
  return std::move(pair.ours);
}

Result<void> Sandbox::end_processes() {
  const wire::ControlHeader header{wire::kVersion,
                                   static_cast<std::uint32_t>(wire::ControlKind::EndProcesses)};
  return sys::send_message(control_.get(), std::as_bytes(std::span(&header, 1)), {});
}

Result<std::optional<sys::ExitStatus>> Sandbox::try_reap() {
  if (!init_.alive()) return std::nullopt;
  return init_.try_wait();
}

std::optional<Error> Sandbox::init_failure() {
  const auto waiting = sys::wait_ready(control_.get(), POLLIN, Clock::now());
  if (!waiting || !*waiting) return std::nullopt;
  const auto message = sys::receive_message(control_.get(), sizeof(wire::ControlFailed));
  if (!message || message->bytes.size() != sizeof(wire::ControlFailed)) return std::nullopt;
  wire::ControlFailed failed{};
  std::memcpy(&failed, message->bytes.data(), sizeof(failed));
  return sys_failure("init could not begin (step " + std::to_string(failed.step) + ")",
                     failed.sys_errno)
      .error();
}

// By group, which reaches what a fork storm makes while we look; and the death of pid 1 ends its
// namespace, which is all there is where no group can be made.
Result<void> Sandbox::kill() {
  auto killed = groups_.kill();
  if (init_.alive()) (void)init_.signal(SIGKILL);
  return killed;
}

Result<Slot> Sandbox::destroy() {
  const auto killed = kill();
  if (init_.alive()) TRY(init_.wait());
  TRY(killed);
  TRY(groups_.remove());
  return std::move(slot_);
}

}  // namespace caisson::engine::native
