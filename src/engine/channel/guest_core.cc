// The pump of a GuestChannel: reads, dispatches, writes, and dies once for everybody.
#include "engine/channel/guest_core.h"

#include <boost/asio/post.hpp>
#include <csignal>
#include <random>
#include <utility>

namespace caisson::engine {
namespace {

using boost::asio::posix::descriptor_base;
using wire::Kind;

constexpr std::uint32_t kCallIdBit = 0x80000000U;

bool is_answer(const Frame& frame) {
  return frame.kind == Kind::Done || frame.kind == Kind::Failed;
}

std::optional<Error> error_in(const Frame& frame) {
  if (frame.kind != Kind::Failed) return std::nullopt;
  wire::FailedView failed{};
  if (!wire::parse_failed(frame.bytes(), failed))
    return Error{Errc::Protocol, "a broken Failed", 0};
  return error_of(failed);
}

}  // namespace

Error gone(const Error& why) {
  return why.code == Errc::Gone ? why : Error{Errc::Gone, why.message, why.sys_errno};
}

CallGuard::~CallGuard() {
  call_->on_frame = nullptr;
  if (call_->done || core_->death()) return;
  switch (kind_) {
    case Kind::Operation:
      (void)core_->link().cancel(call_->id);
      break;
    case Kind::Exec:
      (void)core_->link().signal(call_->id, SIGKILL, wire::SignalTarget::Tree);
      break;
    case Kind::Question:
      break;
  }
  core_->flush();
}

awaitable<Result<std::shared_ptr<GuestChannel>>> GuestChannel::open(
    boost::asio::any_io_executor executor, UniqueFd stream, Nonce nonce, ChannelOptions options) {
  auto core = std::make_shared<GuestCore>(std::move(executor), std::move(stream), nonce, options);
  auto greeted = co_await core->greet();
  if (!greeted) {
    core->close(greeted.error());
    co_return std::unexpected(greeted.error());
  }
  co_return core;
}

GuestCore::GuestCore(boost::asio::any_io_executor executor, UniqueFd stream, const Nonce& nonce,
                     ChannelOptions options)
    : executor_(std::move(executor)),
      options_(options),
      link_(std::move(stream), nonce),
      descriptor_(executor_),
      greeted_(executor_) {
  // Execs of an earlier server may still have their ids: a random beginning keeps out of their way.
  std::random_device random;
  next_call_ = random() | kCallIdBit;
}

GuestCore::~GuestCore() {
  if (descriptor_.is_open()) (void)descriptor_.release();  // the link closes it
}

awaitable<Result<void>> GuestCore::greet() {
  if (link_.death()) co_return std::unexpected(*link_.death());
  boost::system::error_code failed;
  descriptor_.assign(link_.fd(), failed);
  if (failed) co_return std::unexpected(Error{Errc::Gone, "guest channel: " + failed.message(), 0});
  arm_read();
  const TimePoint deadline = Clock::now() + options_.hello;
  while (!link_.greeted() && !death_) {
    const Wake wake = co_await greeted_.wait(deadline);
    if (wake == Wake::Woken) continue;
    co_return failure(wake == Wake::TimedOut ? Errc::TimedOut : Errc::Gone,
                      "guest channel: init did not say Hello in time");
  }
  if (death_) co_return std::unexpected(*death_);
  if (options_.adopt) co_return co_await adopt();
  co_return Result<void>();
}

void GuestCore::arm_read() {
  auto ready = [self = shared_from_this()](const boost::system::error_code& failed) {
    if (!failed && !self->death_) self->on_readable();
  };
  descriptor_.async_wait(descriptor_base::wait_read, std::move(ready));
}

void GuestCore::arm_write() {
  writing_ = true;
  auto ready = [self = shared_from_this()](const boost::system::error_code& failed) {
    self->writing_ = false;
    if (!failed && !self->death_) self->flush();
  };
  descriptor_.async_wait(descriptor_base::wait_write, std::move(ready));
}

void GuestCore::on_readable() {
  const auto got = link_.on_readable();
  dispatch();  // also after a failure: what came before it counts
  if (!got) die(got.error());
  if (death_) return;
  flush();
  if (!death_) arm_read();
}

// Tries at once; only what the socket does not take waits for another turn.
void GuestCore::flush() {
  if (death_) return;
  if (const auto sent = link_.on_writable(); !sent) return die(sent.error());
  if (link_.wants_write() && !writing_) arm_write();
}

void GuestCore::dispatch() {
  const bool was_greeted = link_.greeted();
  while (!death_) {
    const auto next = link_.next();
    if (!next) return die(next.error());
    if (!*next) break;
    deliver(**next);
  }
  if (!was_greeted && link_.greeted()) greeted_.wake();
}

void GuestCore::deliver(const Frame& frame) {
  if (const auto call = calls_.find(frame.id); call != calls_.end()) {
    const CallPtr kept = call->second;
    return deliver_call(kept, frame);
  }
  if (const auto process = processes_.find(frame.id); process != processes_.end()) {
    deliver_process(frame.id, *process->second, frame);
  }
}

void GuestCore::deliver_call(const CallPtr& call, const Frame& frame) {
  if (is_answer(frame)) {
    // A caller who left had his tree killed: nobody waits for that answer.
    if (static_cast<Kind>(frame.stream) == Kind::Signal) return;
    (void)wire::parse_exact(frame.bytes(), call->result);
    calls_.erase(frame.id);
    return call->finish(error_in(frame));
  }
  if (call->on_frame) call->on_frame(frame);
  if (frame.kind == Kind::Exited || frame.kind == Kind::Pong) {
    calls_.erase(frame.id);
    call->finish();
  }
}

void GuestCore::deliver_process(std::uint32_t id, Process& process, const Frame& frame) {
  if (is_answer(frame)) return answer(id, process, frame);
  switch (frame.kind) {
    case Kind::Started:
      if (!process.answers.empty() && process.answers.front().kind == Kind::Start) {
        const CallPtr call = process.answers.front().call;
        process.answers.pop_front();
        process.known = true;
        if (call->on_frame) call->on_frame(frame);
        call->finish();
      }
      break;
    case Kind::Data:
      on_data(id, process, frame);
      break;
    case Kind::Exited:
      on_exited(id, process, frame);
      break;
    case Kind::Credit:
      if (process.input_open) process.input_open->wake();
      break;
    default:
      break;
  }
}

// init answers requests about one process in the order in which they were sent.
void GuestCore::answer(std::uint32_t id, Process& process, const Frame& frame) {
  const auto kind = static_cast<Kind>(frame.stream);
  if (process.answers.empty() || process.answers.front().kind != kind) {
    return die(Error{Errc::Protocol, "guest channel: an answer that nobody waits for", 0});
  }
  const Process::Answer answer = std::move(process.answers.front());
  process.answers.pop_front();
  std::optional<Error> error = error_in(frame);
  (void)wire::parse_exact(frame.bytes(), answer.call->result);
  if (kind == Kind::Attach) {
    --process.attaching;
    if (!error) attached(process, answer);
    if (error && process.attaching == 0) process.attached = false;
    if (process.input_open) process.input_open->wake();
  }
  const bool over = (kind == Kind::Forget && !error) || (kind == Kind::Start && error);
  if (over) process.known = false;
  answer.call->finish(std::move(error));
  if (over && kind == Kind::Forget) {
    const Error forgotten{Errc::NotFound, "the process was forgotten", 0};
    for (const auto& reader : process.readers) {
      reader->error = forgotten;
      reader->wakeup.wake();
    }
    process.attached = false;
  }
  if (kind == Kind::Attach) grant(id, process);
  tidy(id);
}

void GuestCore::tidy(std::uint32_t id) {
  const auto at = processes_.find(id);
  if (at == processes_.end()) return;
  const Process& process = *at->second;
  const bool used = process.known || !process.answers.empty() || !process.readers.empty() ||
                    process.input_taken || !process.input_turns.empty();
  if (!used) processes_.erase(at);
}

Process* GuestCore::find(std::uint32_t id) {
  const auto at = processes_.find(id);
  return at == processes_.end() ? nullptr : at->second.get();
}

void GuestCore::fail_waiting(const Error& error) {
  const auto calls = std::exchange(calls_, {});
  for (const auto& [id, call] : calls) call->finish(error);
  for (auto& [id, process] : processes_) {
    for (const Process::Answer& answer : process->answers) answer.call->finish(error);
    process->answers.clear();
    for (const auto& reader : process->readers) {
      reader->error = error;
      reader->wakeup.wake();
    }
    for (const auto& turn : process->input_turns) turn->wake();
    if (process->input_open) process->input_open->wake();
    if (process->stall) process->stall->cancel();
  }
  greeted_.wake();
}

void GuestCore::die(const Error& error) {
  if (death_) return;
  death_ = gone(error);
  if (descriptor_.is_open()) (void)descriptor_.release();
  fail_waiting(*death_);
  if (!on_death_) return;
  // In a turn of its own: whoever was in the middle of a call finishes it first.
  auto tell = [call = std::exchange(on_death_, nullptr), why = error] { call(why); };
  boost::asio::post(executor_, std::move(tell));
}

void GuestCore::close(Error reason) {
  on_death_ = nullptr;
  die(reason);
}

Result<CallPtr> GuestCore::enlist() {
  if (death_) return std::unexpected(*death_);
  if (calls_.size() >= kCallsMax) {
    return failure(Errc::Exhausted, "the sandbox has too many calls waiting (1024 at once)");
  }
  while (next_call_ < kCallIdBit || calls_.contains(next_call_)) {
    next_call_ = next_call_ < kCallIdBit ? kCallIdBit : next_call_ + 1;
  }
  auto call = std::make_shared<Call>(executor_);
  call->id = next_call_++;
  calls_.emplace(call->id, call);
  return call;
}

awaitable<Result<microseconds>> GuestCore::ping() {
  const auto self = shared_from_this();
  const TimePoint begin_at = Clock::now();
  auto call = enlist();
  if (!call) co_return std::unexpected(call.error());
  if (const auto sent = link_.ping((*call)->id, {}); !sent) {
    dismiss(**call);
    co_return std::unexpected(sent.error());
  }
  flush();
  CallGuard guard(self, *call, CallGuard::Kind::Question);
  while (!guard.call().done) {
    const Wake wake = co_await guard.call().wakeup.wait(begin_at + options_.idle_transfer);
    if (wake != Wake::Woken) co_return failure(Errc::TimedOut, "ping: no answer in time");
  }
  if (guard.call().error) co_return std::unexpected(guard.call().error->within("ping"));
  co_return duration_cast<microseconds>(Clock::now() - begin_at);
}

}  // namespace caisson::engine
