// The file calls of GuestSession.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/link/file_entry.h"
#include "engine/link/guest_session.h"

namespace caisson::engine {
namespace {

using wire::Kind;
using wire::OpKind;

OpOptions op(OpKind kind, const GuestUser& user, std::string path, std::uint32_t flags = 0) {
  OpOptions options;
  options.op = kind;
  options.flags = flags;
  options.uid = user.uid;
  options.gid = user.gid;
  options.path = std::move(path);
  return options;
}

}  // namespace

Result<void> GuestSession::begin(Call& call, const OpOptions& options) {
  enlist(call);
  Result<void> sent = call.error ? std::unexpected(*call.error) : link_.operate(call.id, options);
  if (!sent) {
    dismiss(call);
    return sent;
  }
  flush();
  return {};
}

// Gives the operation up. Its id stays ours until init has answered, or it could be given out again
// too early.
std::unexpected<Error> GuestSession::abandon(Lock& lock, Call& call, Error error) {
  if (!call.done) {
    (void)link_.cancel(call.id);
    flush();
    (void)wait(lock, call, [] { return false; }, Clock::now() + kFileTimeout);
  }
  dismiss(call);
  return std::unexpected(std::move(error));
}

Result<wire::DoneBody> GuestSession::finish(Lock& lock, Call& call, std::string_view what) {
  // A long List is not late as long as something comes.
  while (!call.done) {
    const std::uint64_t seen = call.progress;
    const auto moved = [&] { return call.progress != seen; };
    if (!wait(lock, call, moved, Clock::now() + kFileTimeout)) {
      return abandon(lock, call,
                     Error{Errc::TimedOut, std::string(what) + ": no answer in time", ETIMEDOUT});
    }
  }
  dismiss(call);
  if (call.error) return std::unexpected(call.error->within(what));
  return call.result;
}

Result<wire::DoneBody> GuestSession::simple(const OpOptions& options, std::string_view what) {
  Call call;
  Lock lock(mutex_);
  TRY(begin(call, options));
  return finish(lock, call, what);
}

Result<FileEntry> GuestSession::stat(const GuestUser& user, std::string path, bool follow) {
  std::optional<FileEntry> entry;
  Call call;
  call.on_frame = [&entry](Call&, const Frame& frame) {
    wire::EntryView view{};
    if (frame.kind == Kind::Entry && wire::parse_entry(frame.bytes(), view)) entry = entry_of(view);
  };
  const std::string what = "stat " + path;
  Lock lock(mutex_);
  TRY(begin(call, op(OpKind::Stat, user, std::move(path), flag_if(!follow, wire::kOpNoFollow))));
  TRY(finish(lock, call, what));
  if (!entry) return failure(Errc::Protocol, what + ": init sent no entry");
  return *std::move(entry);
}

Result<std::vector<FileEntry>> GuestSession::list(const GuestUser& user, std::string path,
                                                  bool recursive) {
  std::vector<FileEntry> entries;
  bool broken = false;
  Call call;
  call.on_frame = [&](Call&, const Frame& frame) {
    wire::EntryView view{};
    const bool good = frame.kind == Kind::Entry && wire::parse_entry(frame.bytes(), view);
    broken = broken || !good || entries.size() >= kListEntriesMax;
    if (!broken) entries.push_back(entry_of(view));
  };
  const std::string what = "list " + path;
  Lock lock(mutex_);
  TRY(begin(call, op(OpKind::List, user, std::move(path), flag_if(recursive, wire::kOpRecursive))));
  TRY(finish(lock, call, what));
  if (broken) return failure(Errc::Protocol, what + ": init sent what is no entry");
  return entries;
}

// Bytes are taken from the call by its own thread, so that a slow sink never holds the pump.
Result<wire::DoneBody> GuestSession::receive(const OpOptions& options, std::string_view what,
                                             const ByteSink& sink) {
  Call call;
  call.on_frame = [](Call& self, const Frame& frame) {
    if (frame.kind != Kind::Data) return;
    const auto bytes = frame.payload.subspan(sizeof(wire::DataHeader));
    self.received.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  Lock lock(mutex_);
  TRY(begin(call, options));
  std::string taken;
  for (;;) {
    const auto has_bytes = [&call] { return !call.received.empty(); };
    if (!wait(lock, call, has_bytes, Clock::now() + kFileTimeout)) {
      return abandon(lock, call,
                     Error{Errc::TimedOut, std::string(what) + ": no data in time", ETIMEDOUT});
    }
    if (call.received.empty()) return finish(lock, call, what);
    taken.clear();
    std::swap(taken, call.received);
    if (!call.done) {
      (void)link_.credit(call.id, wire::Stream::Output, static_cast<std::uint32_t>(taken.size()));
      flush();
    }
    lock.unlock();
    auto accepted = sink(std::as_bytes(std::span(taken)));
    lock.lock();
    if (!accepted) return abandon(lock, call, std::move(accepted).error());
  }
}

// The source is asked without the lock; what it gives is sent as the window opens.
Result<wire::DoneBody> GuestSession::transmit(const OpOptions& options, std::string_view what,
                                              const ByteSource& source) {
  Call call;
  Lock lock(mutex_);
  TRY(begin(call, options));
  std::vector<std::byte> buffer(wire::kInputWindow);
  while (!call.done) {
    lock.unlock();
    auto got = source(buffer);
    lock.lock();
    if (!got) return abandon(lock, call, std::move(got).error());
    if (*got == 0) {
      (void)link_.close_input(call.id);
      flush();
      break;
    }
    auto rest = std::span<const std::byte>(buffer).first(std::min(*got, buffer.size()));
    while (!rest.empty() && !call.done) {
      const auto open = [&] { return link_.input_window(call.id) > 0; };
      if (!wait(lock, call, open, Clock::now() + kFileTimeout)) {
        return abandon(
            lock, call,
            Error{Errc::TimedOut, std::string(what) + ": no progress in time", ETIMEDOUT});
      }
      if (call.done) break;
      auto sent = link_.input(call.id, rest);
      if (!sent) return abandon(lock, call, std::move(sent).error());
      rest = rest.subspan(*sent);
      flush();
    }
  }
  return finish(lock, call, what);
}

Result<std::string> GuestSession::read_file(const GuestUser& user, std::string path,
                                            std::uint64_t offset, std::uint64_t length,
                                            std::size_t bytes_max) {
  const std::string what = "read " + path;
  OpOptions options = op(OpKind::Read, user, std::move(path));
  options.offset = offset;
  options.length = length;
  options.window_bytes = kWindowBytes;
  std::string content;
  TRY(receive(options, what, [&](std::span<const std::byte> bytes) -> Result<void> {
    if (bytes.size() > bytes_max - content.size()) {
      return failure(Errc::Exhausted, what + ": the file is larger than what was asked for");
    }
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }));
  return content;
}

Result<void> GuestSession::write_file(const GuestUser& user, std::string path,
                                      std::string_view content, const WriteOptions& wanted) {
  const std::string what = "write " + path;
  const std::uint32_t flags =
      flag_if(wanted.parents, wire::kOpParents) | flag_if(wanted.exclusive, wire::kOpExclusive);
  OpOptions options = op(OpKind::Write, user, std::move(path), flags);
  options.mode = wanted.mode;
  auto rest = std::as_bytes(std::span(content));
  TRY(transmit(options, what, [&rest](std::span<std::byte> to) -> Result<std::size_t> {
    const std::size_t part = std::min(to.size(), rest.size());
    std::copy_n(rest.begin(), part, to.begin());
    rest = rest.subspan(part);
    return part;
  }));
  return {};
}

Result<void> GuestSession::make_folder(const GuestUser& user, std::string path, bool parents,
                                       std::uint32_t mode) {
  const std::string what = "make folder " + path;
  OpOptions options = op(OpKind::Mkdir, user, std::move(path), flag_if(parents, wire::kOpParents));
  options.mode = mode;
  TRY(simple(options, what));
  return {};
}

Result<void> GuestSession::move(const GuestUser& user, std::string from, std::string to,
                                const MoveOptions& wanted) {
  const std::string what = "move " + from;
  const std::uint32_t flags =
      flag_if(wanted.parents, wire::kOpParents) | flag_if(wanted.replace, wire::kOpReplace);
  OpOptions options = op(OpKind::Move, user, std::move(from), flags);
  options.path2 = std::move(to);
  TRY(simple(options, what));
  return {};
}

Result<std::uint64_t> GuestSession::remove(const GuestUser& user, std::string path,
                                           bool recursive) {
  const std::string what = "remove " + path;
  const wire::DoneBody done = TRY(simple(
      op(OpKind::Remove, user, std::move(path), flag_if(recursive, wire::kOpRecursive)), what));
  return done.count;
}

Result<TarResult> GuestSession::tar_out(const GuestUser& user, std::string path,
                                        const ByteSink& sink) {
  const std::string what = "archive " + path;
  OpOptions options = op(OpKind::TarOut, user, std::move(path));
  options.window_bytes = kWindowBytes;
  const wire::DoneBody done = TRY(receive(options, what, sink));
  return TarResult{done.bytes, done.count};
}

Result<TarResult> GuestSession::tar_in(const GuestUser& user, std::string path,
                                       const ByteSource& source, bool parents) {
  const std::string what = "unpack into " + path;
  const OpOptions options =
      op(OpKind::TarIn, user, std::move(path), flag_if(parents, wire::kOpParents));
  const wire::DoneBody done = TRY(transmit(options, what, source));
  return TarResult{done.bytes, done.count};
}

Result<void> GuestSession::watch(const GuestUser& user, std::string path, bool recursive,
                                 const std::function<bool(const WatchEvent&)>& on_event,
                                 const std::stop_token& stop) {
  constexpr std::size_t kEventsMax =
      65536;  // not yet taken by the caller; beyond it they count as lost
  std::vector<WatchEvent> events;
  Call call;
  call.on_frame = [&events](Call&, const Frame& frame) {
    wire::EventView view{};
    if (frame.kind != Kind::Event || !wire::parse_event(frame.bytes(), view)) return;
    if (events.size() < kEventsMax) {
      events.push_back(WatchEvent{view.body.mask, view.body.cookie, text_of(view.name)});
    } else {
      events.back() = WatchEvent{wire::kEventOverflow, 0, ""};
    }
  };
  const std::string what = "watch " + path;
  Lock lock(mutex_);
  TRY(begin(call,
            op(OpKind::Watch, user, std::move(path), flag_if(recursive, wire::kOpRecursive))));
  lock.unlock();
  const std::stop_callback on_stop(stop, [&] { request_stop(call); });
  bool wanted = true;
  while (wanted) {
    lock.lock();
    (void)wait(lock, call, [&] { return !events.empty() || call.stop_requested; }, std::nullopt);
    std::vector<WatchEvent> taken;
    taken.swap(events);
    const bool over = call.done || call.stop_requested;
    lock.unlock();
    for (const WatchEvent& event : taken) wanted = wanted && on_event(event);
    wanted = wanted && !over;
  }
  lock.lock();
  if (!call.done) {
    (void)abandon(lock, call, Error{});
  } else {
    dismiss(call);
    if (call.error) {
      Error error = call.error->within(what);
      lock.unlock();
      return std::unexpected(std::move(error));
    }
  }
  lock.unlock();  // before the stop callback goes: it may be waiting for the lock
  return {};
}

Result<microseconds> GuestSession::ping() {
  Call call;
  call.on_frame = [](Call& self, const Frame& frame) { self.done = frame.kind == Kind::Pong; };
  const TimePoint begin_at = Clock::now();
  Lock lock(mutex_);
  enlist(call);
  const auto sent =
      call.error ? Result<void>(std::unexpected(*call.error)) : link_.ping(call.id, {});
  if (sent) {
    flush();
    (void)wait(lock, call, [] { return false; }, begin_at + kFileTimeout);
  }
  dismiss(call);
  if (!sent) return std::unexpected(sent.error());
  if (call.error) return std::unexpected(call.error->within("ping"));
  if (!call.done) return failure(Errc::TimedOut, "ping: no answer in time");
  return duration_cast<microseconds>(Clock::now() - begin_at);
}

Result<std::vector<ProcessEntry>> GuestSession::list_processes() {
  std::vector<ProcessEntry> entries;
  Call call;
  call.on_frame = [&entries](Call&, const Frame& frame) {
    wire::ListEntryView view{};
    if (frame.kind != Kind::ListEntry || !wire::parse_list_entry(frame.bytes(), view)) return;
    if (entries.size() >= wire::kProcessesMax) return;
    ProcessEntry entry;
    entry.id = view.body.process;
    entry.pid = view.body.pid;
    entry.state = static_cast<wire::ProcessState>(view.body.state);
    entry.flags = view.body.flags;
    entry.age = microseconds(static_cast<std::int64_t>(view.body.age_us & INT64_MAX));
    entry.name = text_of(view.name);
    entry.exited = view.body.exited;
    entries.push_back(std::move(entry));
  };
  Lock lock(mutex_);
  enlist(call);
  const auto sent = call.error ? Result<void>(std::unexpected(*call.error)) : link_.list(call.id);
  if (!sent) {
    dismiss(call);
    return std::unexpected(sent.error());
  }
  flush();
  TRY(finish(lock, call, "list processes"));
  return entries;
}

}  // namespace caisson::engine
