// Many readers on the one attachment of a process.
//
// init sends each byte once, as far as our credit goes. A new reader makes us attach again at the
// smallest offset that anybody still wants; the others skip what they have seen. The invariant, per
// stream: what init may still send plus the longest backlog of a reader is at most kWindowBytes. So
// a byte is credited again when the slowest reader has taken it, and never twice.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/channel/guest_core.h"

namespace caisson::engine {
namespace {

using wire::Kind;

constexpr std::uint32_t kGrantStep = kWindowBytes / 4;

std::size_t longest_backlog(const Process& process, int which) {
  std::size_t longest = 0;
  for (const auto& reader : process.readers) longest = std::max(longest, reader->backlog[which]);
  return longest;
}

std::uint32_t room(const Process& process, int which) {
  const std::size_t held = std::min<std::size_t>(longest_backlog(process, which), kWindowBytes);
  return kWindowBytes - static_cast<std::uint32_t>(held);
}

bool has_read_all(const OutputReader& reader, const wire::ExitedBody& exited) {
  if (reader.kind == ReaderKind::EndOnly) return true;
  return reader.next[0] >= exited.end_offset[0] && reader.next[1] >= exited.end_offset[1];
}

class Output final : public GuestOutput {
 public:
  Output(std::shared_ptr<GuestCore> core, std::uint32_t id, std::shared_ptr<OutputReader> reader)
      : core_(std::move(core)), id_(id), reader_(std::move(reader)) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() override { core_->drop_reader(id_, reader_); }

  awaitable<Result<Item>> next() override {
    for (;;) {
      if (!reader_->queue.empty()) co_return take();
      if (reader_->error) co_return std::unexpected(*reader_->error);
      const Process* process = core_->find(id_);
      if (process != nullptr && process->exited && has_read_all(*reader_, *process->exited))
        co_return Item(*process->exited);
      if (co_await reader_->wakeup.wait() == Wake::Cancelled)
        co_return failure(Errc::Gone, "the reader left");
    }
  }

 private:
  Item take() {
    Chunk chunk = std::move(reader_->queue.front());
    reader_->queue.pop_front();
    reader_->last_take = Clock::now();
    reader_->backlog[chunk.error ? 1 : 0] -= chunk.size();
    GuestData data;
    data.error = chunk.error;
    data.offset = chunk.offset;
    data.lost = chunk.lost;
    if (chunk.bytes.use_count() == 1 && chunk.skip == 0) {
      data.bytes = std::move(*chunk.bytes);
    } else {
      data.bytes = chunk.bytes->substr(chunk.skip);
    }
    if (Process* process = core_->find(id_); process != nullptr && !core_->death()) {
      core_->grant(id_, *process);
      core_->flush();
    }
    return data;
  }

  std::shared_ptr<GuestCore> core_;
  std::uint32_t id_;
  std::shared_ptr<OutputReader> reader_;
};

}  // namespace

Result<std::shared_ptr<OutputReader>> GuestCore::add_reader(std::uint32_t id, ReaderKind kind,
                                                            std::uint64_t out_offset,
                                                            std::uint64_t err_offset,
                                                            CallPtr& answer) {
  if (death_) return std::unexpected(*death_);
  auto& entry = processes_[id];
  if (!entry) entry = std::make_unique<Process>();
  Process& process = *entry;
  const auto refuse = [&](Errc code, std::string message) {
    tidy(id);
    return failure(code, std::move(message));
  };
  if (process.drain) return refuse(Errc::NotFound, "there is no process " + std::to_string(id));
  if (process.readers.size() >= kReadersMax)
    return refuse(Errc::Exhausted, "process " + std::to_string(id) + " has too many readers (32)");
  auto reader = std::make_shared<OutputReader>(executor_);
  reader->kind = kind;
  reader->next[0] = out_offset;
  reader->next[1] = err_offset;
  std::array<std::uint64_t, 2> from{out_offset, err_offset};
  for (const auto& other : process.readers) {
    if (other->kind == ReaderKind::EndOnly) continue;
    for (std::size_t which = 0; which < 2; ++which)
      from[which] = std::min(from[which], other->next[which]);
  }
  const std::uint32_t window = std::min(room(process, 0), room(process, 1));
  if (const auto sent = link_.attach(id, from, window); !sent) {
    tidy(id);
    return std::unexpected(sent.error());
  }
  process.attached = true;
  ++process.attaching;
  answer = expect(process, Kind::Attach);
  process.answers.back().window = window;
  process.answers.back().readers.push_back(reader);
  process.readers.push_back(reader);
  flush();
  return reader;
}

// init counts its credit anew from here on.
void GuestCore::attached(Process& process, const Process::Answer& answer) {
  process.known = true;
  for (std::uint64_t& credit : process.credit) credit = answer.window;
  for (const auto& weak : answer.readers) {
    const auto reader = weak.lock();
    if (!reader) continue;
    reader->active = true;
    reader->last_take = Clock::now();
  }
}

void GuestCore::drop_reader(std::uint32_t id, const std::shared_ptr<OutputReader>& reader) {
  Process* process = find(id);
  if (process == nullptr || std::erase(process->readers, reader) == 0) return;
  if (death_) return tidy(id);
  if (process->readers.empty()) {
    detach(id, *process);
  } else {
    grant(id, *process);
  }
  flush();
  tidy(id);
}

// Nobody reads any more: the process must not wait for us.
void GuestCore::detach(std::uint32_t id, Process& process) {
  if (!process.attached || !process.known || !link_.detach(id)) return;
  process.attached = false;
  (void)expect(process, Kind::Detach);
}

void GuestCore::grant(std::uint32_t id, Process& process) {
  // Before its answer an Attach has a window of its own, and credit would come on top of it.
  if (!process.attached || process.attaching > 0 || process.readers.empty()) return;
  for (int which = 0; which < 2; ++which) {
    const std::uint64_t wanted = room(process, which);
    std::uint64_t& held = process.credit[which];
    if (wanted <= held || (wanted - held < kGrantStep && held != 0)) continue;
    const auto stream = which == 0 ? wire::Stream::Output : wire::Stream::Error;
    if (!link_.credit(id, stream, static_cast<std::uint32_t>(wanted - held))) return;
    held = wanted;
  }
}

void GuestCore::hand_out(Process& process, bool error, std::uint64_t offset,
                         const std::shared_ptr<std::string>& bytes) {
  const std::size_t which = error ? 1 : 0;
  const std::uint64_t end = offset + bytes->size();
  for (const auto& reader : process.readers) {
    if (!reader->active || reader->error || reader->kind == ReaderKind::EndOnly) continue;
    std::uint64_t& next = reader->next[which];
    if (end <= next) continue;  // it has seen this
    Chunk chunk;
    chunk.error = error;
    chunk.offset = std::max(offset, next);
    chunk.lost = chunk.offset - next;
    chunk.skip = static_cast<std::size_t>(chunk.offset - offset);
    chunk.bytes = bytes;
    next = end;
    if (reader->queue.empty()) reader->last_take = Clock::now();
    reader->backlog[which] += chunk.size();
    reader->queue.push_back(std::move(chunk));
    reader->wakeup.wake();
  }
}

void GuestCore::on_data(std::uint32_t id, Process& process, const Frame& frame) {
  if (process.drain) return;
  wire::DataHeader header{};
  std::memcpy(&header, frame.payload.data(), sizeof(header));
  const auto bytes = frame.payload.subspan(sizeof(header));
  const bool error = frame.stream == static_cast<std::uint16_t>(wire::Stream::Error);
  std::uint64_t& credit = process.credit[error ? 1 : 0];
  // The link allows more after an Attach than we gave: it cannot know how the process was started.
  if (bytes.size() > credit || header.offset > UINT64_MAX - bytes.size()) {
    return die(Error{Errc::Protocol, "guest channel: more output than there was credit for", 0});
  }
  credit -= bytes.size();
  if (!bytes.empty()) {
    const auto shared =
        std::make_shared<std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    hand_out(process, error, header.offset, shared);
  }
  grant(id, process);
  watch_stalls(id, process);
}

void GuestCore::on_exited(std::uint32_t id, Process& process, const Frame& frame) {
  wire::ExitedBody body{};
  if (!wire::parse_exact(frame.bytes(), body)) return;
  if (process.drain) {
    processes_.erase(id);
    return;
  }
  process.exited = body;
  for (const auto& reader : process.readers) reader->wakeup.wake();
  if (process.input_open) process.input_open->wake();
}

// Somebody's backlog fills the window and others wait for him: the clock runs.
void GuestCore::watch_stalls(std::uint32_t id, Process& process) {
  const bool blocked = longest_backlog(process, 0) + process.credit[0] >= kWindowBytes ||
                       longest_backlog(process, 1) + process.credit[1] >= kWindowBytes;
  const bool full = process.credit[0] == 0 || process.credit[1] == 0;
  if (!blocked || !full || process.stall_armed || process.readers.size() < 2) return;
  process.stall = std::make_unique<boost::asio::steady_timer>(executor_, options_.reader_stall);
  process.stall_armed = true;
  auto over = [weak = weak_from_this(), id](const boost::system::error_code& failed) {
    const auto self = weak.lock();
    if (!failed && self && !self->death_) self->cut_stalled(id);
  };
  process.stall->async_wait(std::move(over));
}

void GuestCore::cut_stalled(std::uint32_t id) {
  Process* process = find(id);
  if (process == nullptr) return;
  process->stall_armed = false;
  if (process->readers.size() < 2) return;
  const TimePoint limit = Clock::now() - options_.reader_stall;
  for (const auto& reader : process->readers) {
    if (reader->queue.empty() || reader->last_take > limit) continue;
    reader->error = Error{Errc::Exhausted,
                          "the reader was too slow and held up others; attach again at the offset "
                          "it has reached",
                          0};
    reader->queue.clear();
    reader->backlog[0] = reader->backlog[1] = 0;
    reader->wakeup.wake();
  }
  std::erase_if(process->readers, [](const auto& reader) { return reader->error.has_value(); });
  if (process->readers.empty()) {
    detach(id, *process);
  } else {
    grant(id, *process);
    watch_stalls(id, *process);
  }
  flush();
}

awaitable<Result<std::unique_ptr<GuestOutput>>> GuestCore::attach(std::uint32_t process,
                                                                  std::uint64_t out_offset,
                                                                  std::uint64_t err_offset) {
  const auto self = shared_from_this();
  CallPtr answer;
  auto reader = add_reader(process, ReaderKind::Bytes, out_offset, err_offset, answer);
  if (!reader) co_return std::unexpected(reader.error());
  auto output = std::make_unique<Output>(self, process, *reader);
  while (!answer->done) {
    const Wake wake = co_await answer->wakeup.wait(Clock::now() + options_.idle_transfer);
    if (wake != Wake::Woken)
      co_return failure(wake == Wake::TimedOut ? Errc::TimedOut : Errc::Gone,
                        "attach: no answer in time");
  }
  if (answer->error) co_return std::unexpected(*answer->error);
  co_return output;
}

awaitable<Result<wire::ExitedBody>> GuestCore::wait(std::uint32_t process, milliseconds timeout) {
  const auto self = shared_from_this();
  const TimePoint deadline = Clock::now() + timeout;
  CallPtr answer;
  auto added = add_reader(process, ReaderKind::EndOnly, UINT64_MAX, UINT64_MAX, answer);
  if (!added) co_return std::unexpected(added.error());
  const std::shared_ptr<OutputReader> reader = *added;
  const Output leave(self, process, reader);  // detaches
  const auto late = [&] {
    return failure(Errc::TimedOut, "process " + std::to_string(process) + " still runs");
  };
  while (!answer->done) {
    const Wake wake = co_await answer->wakeup.wait(Clock::now() + options_.idle_transfer);
    if (wake != Wake::Woken) co_return late();
  }
  if (answer->error) co_return std::unexpected(*answer->error);
  for (;;) {
    if (reader->error) co_return std::unexpected(*reader->error);
    const Process* held = find(process);
    if (held == nullptr) co_return failure(Errc::NotFound, "the process was forgotten");
    if (held->exited) co_return *held->exited;
    const Wake wake = co_await reader->wakeup.wait(deadline);
    if (wake == Wake::TimedOut) co_return late();
    if (wake == Wake::Cancelled) co_return failure(Errc::Gone, "wait: the caller left");
  }
}

}  // namespace caisson::engine
