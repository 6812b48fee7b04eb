#include "engine/native/sandbox.h"

#include <poll.h>

#include <csignal>
#include <cstring>

#include "sys/process.h"
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

namespace {

constexpr milliseconds kHoldWait{200};
// Of another kernel, which has to write out what it holds back.
constexpr milliseconds kCarriedHoldWait{5000};

wire::ControlHeader word(wire::ControlKind kind) {
  return {wire::kVersion, static_cast<std::uint32_t>(kind)};
}

}  // namespace

Result<void> Sandbox::hold() {
  const auto say = [this](wire::ControlKind kind) {
    const wire::ControlHeader header = word(kind);
    return sys::send_message(control_.get(), std::as_bytes(std::span(&header, 1)), {});
  };
  // What came too late for an earlier one is not an answer to this one.
  while (TRY(sys::wait_ready(control_.get(), POLLIN, Clock::now()))) {
    const auto stale = TRY(sys::receive_message(control_.get(), sizeof(wire::ControlFailed)));
    if (stale.bytes.empty()) return failure(Errc::Gone, "the sandbox has ended");
  }
  TRY(say(wire::ControlKind::Hold));
  if (TRY(sys::wait_ready(control_.get(), POLLIN,
                          Clock::now() + (trace_ ? kCarriedHoldWait : kHoldWait)))) {
    const auto answer = TRY(sys::receive_message(control_.get(), sizeof(wire::ControlFailed)));
    wire::ControlHeader header{};
    if (answer.bytes.size() == sizeof(header)) {
      std::memcpy(&header, answer.bytes.data(), sizeof(header));
      if (header.kind == static_cast<std::uint32_t>(wire::ControlKind::Held)) return {};
    }
  }
  release();
  return failure(Errc::Busy, "init is busy");
}

void Sandbox::release() noexcept {
  const wire::ControlHeader header = word(wire::ControlKind::Release);
  (void)sys::send_message(control_.get(), std::as_bytes(std::span(&header, 1)), {});
}

Result<void> Sandbox::carry(int stream) {
  const wire::ControlHeader header = word(wire::ControlKind::Carry);
  return sys::send_message(control_.get(), std::as_bytes(std::span(&header, 1)),
                           std::span(&stream, 1));
}

Result<void> Sandbox::end_processes() {
  const wire::ControlHeader header{wire::kVersion,
                                   static_cast<std::uint32_t>(wire::ControlKind::EndProcesses)};
  return sys::send_message(control_.get(), std::as_bytes(std::span(&header, 1)), {});
}

bool Sandbox::ending() const noexcept {
  pollfd control{control_.get(), 0, 0};
  return init_.alive() && ::poll(&control, 1, 0) == 1 && (control.revents & POLLHUP) != 0;
}

Result<std::optional<sys::ExitStatus>> Sandbox::try_reap() {
  if (!init_.alive()) return std::nullopt;
  return init_.try_wait();
}

std::optional<Error> Sandbox::init_failure() {
  Result<sys::Message> message;
  wire::ControlFailed failed{};
  const auto is_failure = [&failed](const std::vector<std::byte>& bytes) {
    if (bytes.size() != sizeof(failed)) return false;
    std::memcpy(&failed, bytes.data(), sizeof(failed));
    return failed.header.kind == static_cast<std::uint32_t>(wire::ControlKind::Failed);
  };
  do {  // an answer that nobody waited for may lie before it
    const auto waiting = sys::wait_ready(control_.get(), POLLIN, Clock::now());
    if (!waiting || !*waiting) return std::nullopt;
    message = sys::receive_message(control_.get(), sizeof(wire::ControlFailed));
    if (!message || message->bytes.empty()) return std::nullopt;
  } while (!is_failure(message->bytes));
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
