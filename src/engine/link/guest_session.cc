// The pump, and execute(). The file calls are in guest_files.cc.
#include "engine/link/guest_session.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <random>
#include <utility>

#include "engine/link/exec_exit.h"
namespace caisson::engine {
namespace {

using wire::Kind;

int poll_timeout(std::optional<TimePoint> deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
}

}  // namespace

GuestSession::GuestSession(UniqueFd stream, const Nonce& nonce, UniqueFd waker)
    : link_(std::move(stream), nonce), waker_(std::move(waker)) {
  // Processes of an earlier session may still have their ids: a random beginning keeps out of their
  // way.
  std::random_device random;
  next_id_ = random() | 1U;
}

GuestSession::~GuestSession() { CAISSON_ASSERT(calls_.empty()); }

Result<std::unique_ptr<GuestSession>> GuestSession::connect(UniqueFd stream, const Nonce& nonce,
                                                            milliseconds timeout) {
  UniqueFd waker(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!waker) return sys_failure("guest session: eventfd", errno);
  std::unique_ptr<GuestSession> session(
      new GuestSession(std::move(stream), nonce, std::move(waker)));
  Lock lock(session->mutex_);
  Call call;
  session->enlist(call);
  GuestSession& self = *session;
  const bool in_time =
      self.wait(lock, call, [&self] { return self.link_.greeted(); }, Clock::now() + timeout);
  self.dismiss(call);
  if (call.error) return std::unexpected(*call.error);
  if (!in_time) return failure(Errc::TimedOut, "guest session: init did not say Hello in time");
  lock.unlock();
  return session;
}

std::uint32_t GuestSession::fresh_id() {
  while (next_id_ == 0 || calls_.contains(next_id_)) ++next_id_;
  return next_id_++;
}

void GuestSession::enlist(Call& call) {
  call.id = fresh_id();
  calls_.emplace(call.id, &call);
  if (link_.death()) {
    call.error = *link_.death();
    call.done = true;
  }
}

void GuestSession::dismiss(Call& call) { calls_.erase(call.id); }

void GuestSession::poke() {
  const std::uint64_t one = 1;
  (void)!::write(waker_.get(), &one, sizeof(one));
}

// Sends what can be sent now. What is left is the leader's to watch, who may be asleep without
// knowing of it.
void GuestSession::flush() {
  if (auto sent = link_.on_writable(); !sent) fail_all(sent.error());
  if (link_.wants_write() && has_leader_) poke();
}

void GuestSession::fail_all(const Error& error) {
  for (auto& [id, call] : calls_) {
    if (call->done) continue;
    call->error = error;
    call->done = true;
    call->wake.notify_one();
  }
}

void GuestSession::dispatch() {
  for (;;) {
    auto next = link_.next();
    if (!next) return fail_all(next.error());
    if (!*next) return;
    const Frame& frame = **next;
    const auto found = calls_.find(frame.id);
    if (found == calls_.end()) continue;  // its caller gave up
    Call& call = *found->second;
    ++call.progress;
    const bool answers = frame.kind == Kind::Done || frame.kind == Kind::Failed;
    const bool about_signal = answers && static_cast<Kind>(frame.stream) == Kind::Signal;
    if (frame.kind == Kind::Done && !about_signal) {
      (void)wire::parse_exact(frame.bytes(), call.result);
      call.done = true;
    } else if (frame.kind == Kind::Failed && !about_signal) {
      wire::FailedView failed{};
      if (!wire::parse_failed(frame.bytes(), failed)) {
        call.error = Error{Errc::Protocol, "a broken Failed", 0};
      } else {
        call.error = error_of(failed);
      }
      call.done = true;
    } else if (call.on_frame && !call.done) {
      call.on_frame(call, frame);
    }
    call.wake.notify_one();
  }
}

// One turn of poll, without the lock, then everything that arrived.
void GuestSession::lead(Lock& lock, std::optional<TimePoint> deadline) {
  has_leader_ = true;
  const short wanted = static_cast<short>(POLLIN | (link_.wants_write() ? POLLOUT : 0));
  pollfd fds[2] = {{link_.fd(), wanted, 0}, {waker_.get(), POLLIN, 0}};
  lock.unlock();
  (void)::poll(fds, 2, poll_timeout(deadline));
  lock.lock();
  has_leader_ = false;
  if ((fds[1].revents & POLLIN) != 0) {
    std::uint64_t count = 0;
    (void)!::read(waker_.get(), &count, sizeof(count));
  }
  if (link_.wants_write()) {
    if (auto sent = link_.on_writable(); !sent) return fail_all(sent.error());
  }
  if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) return;
  auto got = link_.on_readable();
  dispatch();  // also after a failure: what came before it counts
  if (!got) fail_all(got.error());
}

bool GuestSession::wait(Lock& lock, Call& call, const std::function<bool()>& ready,
                        std::optional<TimePoint> deadline) {
  bool in_time = true;
  while (!call.done && !ready()) {
    if (deadline && Clock::now() >= *deadline) {
      in_time = false;
      break;
    }
    if (!has_leader_) {
      lead(lock, deadline);
      continue;
    }
    const auto place = waiting_.insert(waiting_.end(), &call);
    if (deadline) {
      call.wake.wait_until(lock, *deadline);
    } else {
      call.wake.wait(lock);
    }
    waiting_.erase(place);
  }
  // Whoever leaves the pump hands it to one who still needs it.
  if (!has_leader_ && !waiting_.empty()) waiting_.front()->wake.notify_one();
  return in_time;
}

void GuestSession::request_stop(Call& call) {
  const Lock lock(mutex_);
  call.stop_requested = true;
  call.wake.notify_one();
  poke();  // it may be the leader itself
}

bool GuestSession::alive() {
  const Lock lock(mutex_);
  return !link_.death().has_value();
}

// ----------------------------------------------------------------------------------- execute

namespace {

StartOptions start_options(const ExecRequest& request) {
  StartOptions options;
  options.argv = request.argv;
  options.env = request.env;
  options.cwd = request.cwd;
  options.uid = request.user.uid;
  options.gid = request.user.gid;
  options.groups = request.groups;
  options.flags = wire::kStartQuiet | wire::kStartAutoForget | wire::kStartAttach;
  if (!request.input.empty()) options.flags |= wire::kStartStdin;
  if (request.merge_error) options.flags |= wire::kStartMergeError;
  if (!request.keep_background && !request.hold) options.flags |= wire::kStartKillTree;
  if (request.hold) options.flags |= wire::kStartHold;
  options.mode = wire::Mode::Collect;
  options.timeout = request.timeout;
  options.grace = request.grace;
  options.ring_bytes = request.output_bytes_max;
  options.window_bytes = 0;
  return options;
}

}  // namespace

Result<ExecResult> GuestSession::execute(const ExecRequest& request) {
  ExecResult result;
  std::size_t fed = 0;
  Call call;
  const auto feed = [&] {
    if (request.input.empty() || fed > request.input.size()) return;
    const auto rest = std::as_bytes(std::span(request.input)).subspan(fed);
    auto taken = link_.input(call.id, rest);
    if (!taken) return;  // the link's death answers the call
    fed += *taken;
    if (fed == request.input.size() && link_.close_input(call.id)) ++fed;
  };
  call.on_frame = [&](Call& self, const Frame& frame) {
    if (frame.kind == Kind::Data) {
      const auto bytes = frame.payload.subspan(sizeof(wire::DataHeader));
      std::string& to = frame.stream == static_cast<std::uint16_t>(wire::Stream::Output)
                            ? result.out
                            : result.err;
      to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } else if (frame.kind == Kind::Credit) {
      feed();
    } else if (frame.kind == Kind::Exited) {
      wire::ExitedBody body{};
      if (wire::parse_exact(frame.bytes(), body)) take_exit(result, body);
      self.done = true;
    }
  };
  Lock lock(mutex_);
  enlist(call);
  Result<void> started =
      call.error ? std::unexpected(*call.error) : link_.start(call.id, start_options(request));
  if (!started) {
    dismiss(call);
    return std::unexpected(started.error());
  }
  feed();
  flush();
  lock.unlock();
  std::optional<TimePoint> deadline;
  if (request.timeout.count() > 0)
    deadline = Clock::now() + request.timeout + request.grace + kExecMargin;
  bool in_time = true;
  {
    const std::stop_callback on_stop(request.stop, [&] { request_stop(call); });
    lock.lock();
    in_time = wait(lock, call, [&call] { return call.stop_requested; }, deadline);
    if (!call.done && call.stop_requested) {
      (void)link_.signal(call.id, SIGKILL, wire::SignalTarget::Tree);
      flush();
      in_time = wait(lock, call, [] { return false; }, Clock::now() + kExecMargin);
    }
    lock.unlock();  // a stop callback that runs now must not meet us holding the lock
  }
  lock.lock();
  dismiss(call);
  if (call.error)
    return std::unexpected(call.error->within(request.argv.empty() ? "exec" : request.argv[0]));
  if (!in_time) return failure(Errc::TimedOut, "exec: init did not answer within the deadline");
  return result;
}

}  // namespace caisson::engine
