// Background processes of a GuestChannel: start, list, signal, input, forget, and those that were
// there before us.
#include <algorithm>
#include <utility>

#include "engine/channel/guest_core.h"

namespace caisson::engine {
namespace {

using wire::Kind;

constexpr std::uint32_t kStartFlagsAllowed = wire::kStartPty | wire::kStartStdin |
                                             wire::kStartMergeError | wire::kStartKillTree |
                                             wire::kStartHold;
constexpr std::uint32_t kProcessIdMax = 0x7fffffffU;

GuestProcess process_of(const wire::ListEntryView& view) {
  GuestProcess process;
  process.id = view.body.process;
  process.pid = view.body.pid;
  process.running = static_cast<wire::ProcessState>(view.body.state) != wire::ProcessState::Ended;
  process.flags = view.body.flags;
  process.age = microseconds(
      static_cast<std::int64_t>(std::min<std::uint64_t>(view.body.age_us, INT64_MAX / 2)));
  process.name.assign(reinterpret_cast<const char*>(view.name.data), view.name.size);
  for (int which = 0; which < 2; ++which) {
    process.begin[which] = view.body.begin[which];
    process.end[which] = view.body.end[which];
  }
  process.exited = view.body.exited;
  return process;
}

bool takes_input(std::uint32_t flags) {
  return (flags & (wire::kStartPty | wire::kStartStdin)) != 0;
}

std::string named(std::string_view what, std::uint32_t id) {
  return std::string(what) + " process " + std::to_string(id);
}

}  // namespace

CallPtr GuestCore::expect(Process& process, Kind kind) {
  auto call = std::make_shared<Call>(executor_);
  process.answers.push_back(Process::Answer{kind, call});
  return call;
}

// It is attached from its first byte, with no window: a process that prints before its first reader
// has come waits when the ring is full, and loses nothing. Who never comes is not waited for long.
awaitable<Result<GuestProcess>> GuestCore::start(StartOptions options) {
  const auto self = shared_from_this();
  if (death_) co_return std::unexpected(*death_);
  while (next_process_ > kProcessIdMax || next_process_ == 0 || processes_.contains(next_process_))
    next_process_ = next_process_ >= kProcessIdMax ? 1 : next_process_ + 1;
  const std::uint32_t id = next_process_++;
  const std::string name = options.argv.empty() ? "start" : options.argv.front();
  options.flags = (options.flags & kStartFlagsAllowed) | wire::kStartAttach;
  options.mode = wire::Mode::Stream;
  options.ring_bytes = kBackgroundRingBytes;
  options.window_bytes = 0;
  if (const auto sent = link_.start(id, options); !sent) co_return std::unexpected(sent.error());
  Process& process = *processes_.emplace(id, std::make_unique<Process>()).first->second;
  process.flags = options.flags;
  process.attached = true;
  GuestProcess made;
  made.id = id;
  made.flags = options.flags;
  made.name = name;
  const CallPtr call = expect(process, Kind::Start);
  call->on_frame = [&made](const Frame& frame) {
    wire::StartedBody body{};
    if (wire::parse_exact(frame.bytes(), body)) made.pid = body.pid;
  };
  flush();
  await_first_reader(id);
  CallGuard guard(self, call, CallGuard::Kind::Question);
  while (!call->done) {
    const Wake wake = co_await call->wakeup.wait(Clock::now() + options_.idle_transfer);
    if (wake != Wake::Woken)
      co_return failure(wake == Wake::TimedOut ? Errc::TimedOut : Errc::Gone,
                        name + ": init did not say that it started");
  }
  if (call->error)
    co_return std::unexpected(call->error->code == Errc::Gone ? *call->error
                                                              : call->error->within(name));
  co_return made;
}

void GuestCore::await_first_reader(std::uint32_t id) {
  Process* process = find(id);
  if (process == nullptr) return;
  auto timer = std::make_unique<boost::asio::steady_timer>(executor_, options_.first_reader_grace);
  auto over = [weak = weak_from_this(), id](const boost::system::error_code& failed) {
    const auto self = weak.lock();
    if (failed || !self || self->death_) return;
    Process* late = self->find(id);
    if (late == nullptr || !late->readers.empty()) return;
    self->detach(id, *late);
    self->flush();
  };
  timer->async_wait(std::move(over));
  process->stall = std::move(timer);
}

awaitable<Result<std::vector<GuestProcess>>> GuestCore::processes() {
  const auto self = shared_from_this();
  std::vector<GuestProcess> all;
  auto call = enlist();
  if (!call) co_return std::unexpected(call.error());
  if (const auto sent = link_.list((*call)->id); !sent) {
    dismiss(**call);
    co_return std::unexpected(sent.error());
  }
  (*call)->on_frame = [&all](const Frame& frame) {
    wire::ListEntryView view{};
    if (frame.kind != Kind::ListEntry || !wire::parse_list_entry(frame.bytes(), view)) return;
    // Collected execs have their own callers.
    if (all.size() >= wire::kProcessesMax || (view.body.flags & wire::kStartAutoForget) != 0)
      return;
    all.push_back(process_of(view));
  };
  flush();
  CallGuard guard(self, *call, CallGuard::Kind::Question);
  auto done = co_await finish(*call, "list processes");
  if (!done) co_return std::unexpected(done.error());
  std::ranges::sort(all, {}, &GuestProcess::id);
  co_return all;
}

// What an earlier server has left. Its processes go on; an exec whose caller is gone goes on too,
// and somebody has to take its end, or its place in init's table would never be free again.
awaitable<Result<void>> GuestCore::adopt() {
  const auto self = shared_from_this();
  std::vector<GuestProcess> all;
  auto call = enlist();
  if (!call) co_return std::unexpected(call.error());
  if (const auto sent = link_.list((*call)->id); !sent) co_return std::unexpected(sent.error());
  (*call)->on_frame = [&all](const Frame& frame) {
    wire::ListEntryView view{};
    if (frame.kind != Kind::ListEntry || !wire::parse_list_entry(frame.bytes(), view)) return;
    if (all.size() < wire::kProcessesMax) all.push_back(process_of(view));
  };
  flush();
  {
    CallGuard guard(self, *call, CallGuard::Kind::Question);
    auto done = co_await finish(*call, "adopt");
    if (!done) co_return std::unexpected(done.error());
  }
  for (const GuestProcess& one : all) {
    if (one.id == 0 || processes_.contains(one.id)) continue;
    if (!link_.attach(one.id, {UINT64_MAX, UINT64_MAX}, 0)) continue;
    Process& process = *processes_.emplace(one.id, std::make_unique<Process>()).first->second;
    process.known = true;
    process.flags = one.flags;
    process.drain = (one.flags & wire::kStartAutoForget) != 0;
    process.attached = true;
    ++process.attaching;
    (void)expect(process, Kind::Attach);
    if (process.drain) continue;
    if (one.id <= kProcessIdMax) next_process_ = std::max(next_process_, one.id + 1);
    // The answer to Attach says how much input it takes; its output is for whoever comes.
    if (!link_.detach(one.id)) continue;
    process.attached = false;
    (void)expect(process, Kind::Detach);
  }
  flush();
  co_return Result<void>();
}

// A request about one process that was queued, or could not be.
awaitable<Result<void>> GuestCore::ask(std::uint32_t id, Kind kind, std::string what,
                                       Result<void> sent) {
  const auto self = shared_from_this();
  if (!sent) co_return std::unexpected(sent.error());
  auto& process = processes_[id];
  if (!process) process = std::make_unique<Process>();
  const CallPtr call = expect(*process, kind);
  flush();
  while (!call->done) {
    const Wake wake = co_await call->wakeup.wait(Clock::now() + options_.idle_transfer);
    if (wake == Wake::TimedOut) co_return failure(Errc::TimedOut, what + ": no answer in time");
    if (wake == Wake::Cancelled) co_return failure(Errc::Gone, what + ": the caller left");
  }
  if (call->error)
    co_return std::unexpected(call->error->code == Errc::Gone ? *call->error
                                                              : call->error->within(what));
  co_return Result<void>();
}

awaitable<Result<void>> GuestCore::signal(std::uint32_t process, int number,
                                          wire::SignalTarget target) {
  if (death_) co_return std::unexpected(*death_);
  co_return co_await ask(process, Kind::Signal, named("signal", process),
                         link_.signal(process, number, target));
}

awaitable<Result<void>> GuestCore::resize(std::uint32_t process, std::uint16_t rows,
                                          std::uint16_t columns) {
  if (death_) co_return std::unexpected(*death_);
  co_return co_await ask(process, Kind::Resize, named("resize", process),
                         link_.resize(process, rows, columns));
}

awaitable<Result<void>> GuestCore::forget(std::uint32_t process) {
  if (death_) co_return std::unexpected(*death_);
  co_return co_await ask(process, Kind::Forget, named("forget", process), link_.forget(process));
}

awaitable<Result<void>> GuestCore::input(std::uint32_t id, std::string bytes, bool then_close) {
  const auto self = shared_from_this();
  if (death_) co_return std::unexpected(*death_);
  Process* process = find(id);
  if (process == nullptr || !process->known || process->drain)
    co_return failure(Errc::NotFound, named("there is no", id));
  if (!takes_input(process->flags))
    co_return failure(Errc::InvalidArgument,
                      named("standard input was not kept open for", id) + "; start it with input");
  // One after the other: the bytes of two writers must not mix.
  while (process->input_taken) {
    const auto turn = std::make_shared<Wakeup>(executor_);
    process->input_turns.push_back(turn);
    const Wake wake = co_await turn->wait();
    process = find(id);
    if (process != nullptr) std::erase(process->input_turns, turn);
    if (death_) co_return std::unexpected(*death_);
    if (wake == Wake::Cancelled) co_return failure(Errc::Gone, "input: the caller left");
    if (process == nullptr) co_return failure(Errc::NotFound, named("there is no", id));
  }
  process->input_taken = true;
  struct Turn {  // hands the pipe on, however we leave
    std::shared_ptr<GuestCore> core;
    std::uint32_t process_id;
    ~Turn() {
      Process* held = core->find(process_id);
      if (held == nullptr) return;
      held->input_taken = false;
      held->input_open = nullptr;
      if (!held->input_turns.empty()) held->input_turns.front()->wake();
      core->tidy(process_id);
    }
  };
  const Turn turn{self, id};
  co_return co_await feed(id, std::move(bytes), then_close);
}

awaitable<Result<void>> GuestCore::feed(std::uint32_t id, std::string bytes, bool then_close) {
  auto rest = std::as_bytes(std::span(bytes));
  std::shared_ptr<OutputReader> end_watch;  // hears of the end while the window is closed
  struct Leave {
    GuestCore& core;
    std::uint32_t process_id;
    std::shared_ptr<OutputReader>& reader;
    ~Leave() {
      if (reader) core.drop_reader(process_id, reader);
    }
  };
  const Leave leave{*this, id, end_watch};
  while (!rest.empty()) {
    Process* process = find(id);
    if (death_) co_return std::unexpected(*death_);
    if (process == nullptr || !process->known)
      co_return failure(Errc::NotFound, named("there is no", id));
    if (process->exited)
      co_return failure(Errc::Gone, "process " + std::to_string(id) + " has ended");
    // While an Attach is on its way, the window it will state does not count what we would send
    // now.
    std::size_t taken = 0;
    if (process->attaching == 0) {
      const auto sent = link_.input(id, rest);
      if (!sent) co_return std::unexpected(sent.error());
      taken = *sent;
      rest = rest.subspan(taken);
      flush();
    }
    if (taken != 0 || rest.empty()) continue;
    if (process->readers.empty() && !end_watch) {
      CallPtr answer;
      auto watch = add_reader(id, ReaderKind::EndOnly, UINT64_MAX, UINT64_MAX, answer);
      if (!watch) co_return std::unexpected(watch.error());
      end_watch = *watch;
    }
    const auto open = std::make_shared<Wakeup>(executor_);
    process->input_open = open;
    if (co_await open->wait() == Wake::Cancelled)
      co_return failure(Errc::Gone, "input: the caller left");
  }
  if (then_close) {
    if (const auto sent = link_.close_input(id); !sent) co_return std::unexpected(sent.error());
    flush();
  }
  co_return Result<void>();
}

}  // namespace caisson::engine
