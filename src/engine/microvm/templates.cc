#include "engine/microvm/templates.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "guest/protocol/protocol.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace caisson::engine::microvm {
namespace {

constexpr auto kBootWait = std::chrono::seconds(60);
constexpr auto kSaveWait = std::chrono::seconds(5);
constexpr std::size_t kHeardMax = 4096;
constexpr std::size_t kFailedMax = 64;

}  // namespace

const Template* TemplateShelf::find(const std::string& kind) {
  const auto at = std::ranges::find(ready_, kind, &Template::kind);
  if (at == ready_.end()) return nullptr;
  ready_.splice(ready_.begin(), ready_, at);
  return &ready_.front();
}

bool TemplateShelf::knows(const std::string& kind) const noexcept {
  return (making_ && making_->made.kind == kind) ||
         std::ranges::find(ready_, kind, &Template::kind) != ready_.end() ||
         std::ranges::find(failed_, kind) != failed_.end();
}

Result<void> TemplateShelf::begin(const std::string& kind, MachineParts parts, UniqueFd upper,
                                  std::span<const std::byte> first_words) {
  if (making_) return failure(Errc::Busy, "templates: one is being made");
  if (parts.plan.memory_bytes > kTemplateMemoryMax)
    return failure(Errc::TooLarge, "templates: its memory is too large to be kept");
  sys::SocketPair stream = TRY(sys::stream_pair());
  TRY(sys::send_message(stream.ours.get(), first_words, {}));
  parts.channel = stream.theirs.get();
  parts.upper = upper.get();
  Machine machine = TRY(Machine::start(qemu_driver(), parts));
  Template made{kind, machine.take_memory(), UniqueFd(), TRY(sys::park(std::move(upper)))};
  UniqueFd ours = TRY(sys::park(std::move(stream.ours)));
  making_.emplace(
      Making{std::move(made), std::move(machine), std::move(ours), {}, Clock::now() + kBootWait});
  return {};
}

// The two answers, and nothing else.
TemplateShelf::Answer TemplateShelf::listen(Making& making) const {
  std::array<char, 512> piece{};
  for (;;) {
    const ssize_t got = ::recv(making.stream.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0 || making.heard.size() > kHeardMax) return Answer::Wrong;
    making.heard.append(piece.data(), static_cast<std::size_t>(got));
  }
  std::string_view rest = making.heard;
  for (const wire::Kind answered : {wire::Kind::Configure, wire::Kind::Hold}) {
    wire::FrameHeader header{};
    constexpr std::size_t kAnswer = sizeof(header) + sizeof(wire::DoneBody);
    if (rest.size() < kAnswer) return Answer::Waiting;
    std::memcpy(&header, rest.data(), sizeof(header));
    if (header.kind != static_cast<std::uint16_t>(wire::Kind::Done) ||
        header.size != sizeof(wire::DoneBody) ||
        header.stream != static_cast<std::uint16_t>(answered))
      return Answer::Wrong;
    rest.remove_prefix(kAnswer);
  }
  return rest.empty() ? Answer::Held : Answer::Wrong;
}

Result<void> TemplateShelf::keep(Making& making) {
  const TimePoint deadline = Clock::now() + kSaveWait;
  TRY(making.machine.stop(deadline));
  UniqueFd devices = TRY(sys::memory_file("caisson-machine"));
  TRY(making.machine.save(devices.get(), deadline));
  TRY(making.machine.kill());
  TRY(making.machine.wait());
  making.made.devices = TRY(sys::park(std::move(devices)));
  while (ready_.size() >= kTemplatesMax) ready_.pop_back();
  ready_.push_front(std::move(making.made));
  return {};
}

void TemplateShelf::tend() {
  if (!making_) return;
  const Answer answer = listen(*making_);
  if (answer == Answer::Waiting && Clock::now() < making_->due) return;
  why_ = answer == Answer::Held ? "" : "the machine did not answer as it should";
  if (answer == Answer::Held) {
    const auto kept = keep(*making_);
    if (kept) return making_.reset();
    why_ = kept.error().message;
  }
  if (const std::string words = making_->machine.last_words(); !words.empty())
    why_ += "; monitor: " + words;
  // Its kind boots every time from now on: that works, or says why.
  if (failed_.size() < kFailedMax) failed_.push_back(making_->made.kind);
  making_.reset();
}

Result<void> TemplateShelf::finish(TimePoint deadline) {
  while (making_) {
    if (!TRY(sys::wait_ready(making_->stream.get(), POLLIN, deadline)))
      return failure(Errc::TimedOut, "templates: the machine does not answer");
    tend();
  }
  return {};
}

}  // namespace caisson::engine::microvm
