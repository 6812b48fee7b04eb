// Files and archives of a GuestChannel. Each operation is a Call; the streams own theirs and cancel
// it when they go.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/channel/guest_core.h"
#include "engine/link/file_entry.h"

namespace caisson::engine {
namespace {

using wire::Kind;
using wire::OpKind;

class FileReader final : public GuestReader {
 public:
  FileReader(std::shared_ptr<GuestCore> core, const CallPtr& call, std::string what,
             std::uint64_t length)
      : core_(core),
        guard_(std::move(core), call, CallGuard::Kind::Operation),
        what_(std::move(what)),
        length_(length) {
    call->on_frame = [this](const Frame& frame) { take(frame); };
  }

  awaitable<Result<std::span<const std::byte>>> next() override {
    Call& call = guard_.call();
    while (received_.empty() && !call.done) {
      auto moved = co_await progress(*core_, call, what_);
      if (!moved) co_return std::unexpected(moved.error());
    }
    taken_.clear();
    std::swap(taken_, received_);
    if (taken_.empty()) {
      if (call.error) co_return std::unexpected(named(*call.error, what_));
      if (length_ != 0 && count_ != length_)
        co_return failure(Errc::Gone, what_ + ": the file became shorter while it was read");
      co_return std::span<const std::byte>();
    }
    count_ += taken_.size();
    if (!call.done) {
      (void)core_->link().credit(call.id, wire::Stream::Output,
                                 static_cast<std::uint32_t>(taken_.size()));
      core_->flush();
    }
    co_return std::as_bytes(std::span(std::as_const(taken_)));
  }

 private:
  void take(const Frame& frame) {
    if (frame.kind == Kind::Credit) guard_.call().wakeup.wake();  // somebody sends the names
    if (frame.kind != Kind::Data) return;
    const auto bytes = frame.payload.subspan(sizeof(wire::DataHeader));
    received_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    guard_.call().wakeup.wake();
  }

  std::shared_ptr<GuestCore> core_;
  CallGuard guard_;
  std::string what_;
  std::uint64_t length_;
  std::uint64_t count_ = 0;
  std::string received_;  // at most kTransferBytes: that is the credit
  std::string taken_;
};

class FileWriter final : public GuestWriter {
 public:
  FileWriter(std::shared_ptr<GuestCore> core, const CallPtr& call, std::string what,
             std::size_t folder_size = 0)
      : core_(core),
        made_(folder_size),
        guard_(std::move(core), call, CallGuard::Kind::Operation),
        what_(std::move(what)) {
    call->on_frame = [this, held = call.get()](const Frame& frame) {
      if (made_.take(frame) || frame.kind == Kind::Credit) held->wakeup.wake();
    };
  }

  awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
    Call& call = guard_.call();
    while (!bytes.empty()) {
      if (call.done) co_return early();
      const auto sent = core_->link().input(call.id, bytes);
      if (!sent) co_return std::unexpected(sent.error());
      bytes = bytes.subspan(*sent);
      core_->flush();
      if (*sent != 0) continue;
      auto moved = co_await progress(*core_, call, what_);
      if (!moved) co_return std::unexpected(moved.error());
    }
    co_return Result<void>();
  }

  awaitable<Result<TarResult>> finish() override {
    Call& call = guard_.call();
    if (!call.done) {
      if (const auto sent = core_->link().close_input(call.id); !sent)
        co_return std::unexpected(sent.error());
      core_->flush();
    }
    while (!call.done) {
      auto moved = co_await progress(*core_, call, what_);
      if (!moved) co_return std::unexpected(moved.error());
    }
    if (call.error) co_return std::unexpected(named(*call.error, what_));
    Listing& made = made_.listing();
    co_return TarResult{call.result.bytes, call.result.count, std::move(made.entries),
                        made.truncated};
  }

 private:
  // init has answered before it had everything: only a failure does that, or the end of an archive.
  Result<void> early() {
    if (const auto& error = guard_.call().error) return std::unexpected(named(*error, what_));
    return {};
  }

  std::shared_ptr<GuestCore> core_;
  EntrySink made_;  // of an archive; before the guard, whose end is the last time it is used
  CallGuard guard_;
  std::string what_;
};

class FileWatch final : public GuestWatch {
 public:
  FileWatch(std::shared_ptr<GuestCore> core, const CallPtr& call, std::string what)
      : guard_(std::move(core), call, CallGuard::Kind::Operation), what_(std::move(what)) {
    call->on_frame = [this](const Frame& frame) { take(frame); };
  }

  awaitable<Result<WatchEvent>> next() override {
    Call& call = guard_.call();
    while (events_.empty()) {
      if (call.done) co_return std::unexpected(named(why(), what_));
      if (co_await call.wakeup.wait() == Wake::Cancelled)
        co_return failure(Errc::Gone, what_ + ": the caller left");
    }
    WatchEvent event = std::move(events_.front());
    events_.pop_front();
    bytes_ -= event.name.size();
    co_return event;
  }

 private:
  [[nodiscard]] Error why() {
    return guard_.call().error.value_or(Error{Errc::Gone, "the watch ended", 0});
  }

  void take(const Frame& frame) {
    wire::EventView view{};
    if (frame.kind != Kind::Event || !wire::parse_event(frame.bytes(), view)) return;
    // Whoever reads that some are missing looks at everything anew, and so sees these, too.
    if (!events_.empty() && events_.back().mask == wire::kEventOverflow) return;
    if (events_.size() < kWatchEventsMax && bytes_ + view.name.size <= kWatchBytesMax) {
      events_.push_back(WatchEvent{view.body.mask, view.body.cookie, text_of(view.name)});
      bytes_ += view.name.size;
    } else {
      bytes_ -= events_.back().name.size();
      events_.back() = WatchEvent{wire::kEventOverflow, 0, ""};
    }
    guard_.call().wakeup.wake();
  }

  CallGuard guard_;
  std::string what_;
  std::deque<WatchEvent> events_;
  std::size_t bytes_ = 0;  // of their names
};

}  // namespace

bool EntrySink::take(const Frame& frame) {
  wire::EntryView view{};
  if (frame.kind != Kind::Entry || !wire::parse_entry(frame.bytes(), view)) return false;
  bytes_ += folder_size_ + view.name.size + view.target.size;
  if (listing_.entries.size() >= entries_max_ || bytes_ > bytes_max_) {
    listing_.truncated = true;
  } else {
    listing_.entries.push_back(entry_of(view));
  }
  return true;
}

Error named(const Error& error, std::string_view what) {
  return error.code == Errc::Gone ? error : error.within(what);
}

awaitable<Result<void>> progress(GuestCore& core, Call& call, const std::string& what) {
  const Wake wake = co_await call.wakeup.wait(Clock::now() + core.options().idle_transfer);
  if (wake == Wake::TimedOut) co_return failure(Errc::TimedOut, what + ": no progress in time");
  if (wake == Wake::Cancelled) co_return failure(Errc::Gone, what + ": the caller left");
  co_return Result<void>();
}

OpOptions make_op(OpKind kind, const GuestUser& user, std::string path, std::uint32_t flags) {
  OpOptions options;
  options.op = kind;
  options.flags = flags;
  options.uid = user.uid;
  options.gid = user.gid;
  options.path = std::move(path);
  return options;
}

Result<CallPtr> GuestCore::begin(const OpOptions& options) {
  CallPtr call = TRY(enlist());
  if (const auto sent = link_.operate(call->id, options); !sent) {
    dismiss(*call);
    return std::unexpected(sent.error());
  }
  flush();
  return call;
}

awaitable<Result<wire::DoneBody>> GuestCore::finish(CallPtr call, std::string what) {
  while (!call->done) {
    auto moved = co_await progress(*this, *call, what);
    if (!moved) co_return std::unexpected(moved.error());
  }
  if (call->error) co_return std::unexpected(named(*call->error, what));
  co_return call->result;
}

awaitable<Result<wire::DoneBody>> GuestCore::simple(OpOptions options, std::string what) {
  const auto self = shared_from_this();
  auto call = begin(options);
  if (!call) co_return std::unexpected(call.error());
  const CallGuard guard(self, *call, CallGuard::Kind::Operation);
  co_return co_await finish(*call, std::move(what));
}

awaitable<Result<FileEntry>> GuestCore::stat(GuestUser user, std::string path, bool follow) {
  std::string what = "stat " + path;
  return one_entry(
      make_op(OpKind::Stat, user, std::move(path), flag_if(!follow, wire::kOpNoFollow)),
      std::move(what));
}

awaitable<Result<FileEntry>> GuestCore::resolve(GuestUser user, std::string path) {
  std::string what = "resolve " + path;
  return one_entry(make_op(OpKind::Resolve, user, std::move(path)), std::move(what));
}

awaitable<Result<std::vector<std::uint16_t>>> GuestCore::ports(GuestUser user) {
  const auto self = shared_from_this();
  OpOptions options = make_op(OpKind::Ports, user, "/");
  options.window_bytes = 2 * wire::kPortsMax;
  auto call = begin(options);
  if (!call) co_return std::unexpected(call.error());
  std::string bytes;
  (*call)->on_frame = [&bytes](const Frame& frame) {
    if (frame.kind != Kind::Data || bytes.size() >= 2UL * wire::kPortsMax) return;
    const auto more = frame.payload.subspan(sizeof(wire::DataHeader));
    bytes.append(reinterpret_cast<const char*>(more.data()), more.size());
  };
  const CallGuard guard(self, *call, CallGuard::Kind::Operation);
  auto done = co_await finish(*call, "list the ports");
  if (!done) co_return std::unexpected(done.error());
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; i + 1 < bytes.size() && ports.size() < wire::kPortsMax; i += 2) {
    const auto low = static_cast<unsigned char>(bytes[i]);
    const auto high = static_cast<unsigned char>(bytes[i + 1]);
    const auto port = static_cast<std::uint16_t>(low | (high << 8U));
    if (port == 0 || (!ports.empty() && port <= ports.back()))
      co_return failure(Errc::Protocol, "list the ports: init sent them out of order");
    ports.push_back(port);
  }
  co_return ports;
}

awaitable<Result<FileEntry>> GuestCore::one_entry(OpOptions options, std::string what) {
  const auto self = shared_from_this();
  std::optional<FileEntry> entry;
  auto call = begin(options);
  if (!call) co_return std::unexpected(call.error());
  (*call)->on_frame = [&entry](const Frame& frame) {
    wire::EntryView view{};
    if (frame.kind == Kind::Entry && wire::parse_entry(frame.bytes(), view)) entry = entry_of(view);
  };
  const CallGuard guard(self, *call, CallGuard::Kind::Operation);
  auto done = co_await finish(*call, what);
  if (!done) co_return std::unexpected(done.error());
  if (!entry) co_return failure(Errc::Protocol, what + ": init sent no entry");
  co_return *std::move(entry);
}

awaitable<Result<Listing>> GuestCore::gather(OpOptions options, std::string input,
                                             std::string what) {
  EntrySink sink(options.path.size() + 1);
  return gather_into(std::move(sink), std::move(options), std::move(input), std::move(what));
}

awaitable<Result<Listing>> GuestCore::gather_into(EntrySink sink, OpOptions options,
                                                  std::string input, std::string what) {
  const auto self = shared_from_this();
  auto call = begin(options);
  if (!call) co_return std::unexpected(call.error());
  const CallPtr held = *call;
  held->on_frame = [&sink, &held](const Frame& frame) {
    // A long listing is not late as long as something comes.
    if (sink.take(frame) || frame.kind == Kind::Credit) held->wakeup.wake();
  };
  const CallGuard guard(self, held, CallGuard::Kind::Operation);
  if (wire::takes_input(options.op)) {
    auto sent = co_await send_input(held, std::move(input), what);
    if (!sent) co_return std::unexpected(sent.error());
  }
  while (!held->done && !sink.listing().truncated) {
    auto moved = co_await progress(*this, *held, what);
    if (!moved) co_return std::unexpected(moved.error());
  }
  if (held->error && !sink.listing().truncated)
    co_return std::unexpected(named(*held->error, what));
  co_return std::move(sink.listing());
}

awaitable<Result<Listing>> GuestCore::list(GuestUser user, std::string path, bool recursive) {
  std::string what = "list " + path;
  OpOptions options =
      make_op(OpKind::List, user, std::move(path), flag_if(recursive, wire::kOpRecursive));
  return gather(std::move(options), "", std::move(what));
}

awaitable<Result<Listing>> GuestCore::scan(GuestUser user, std::string path) {
  std::string what = "scan " + path;
  OpOptions options =
      make_op(OpKind::List, user, std::move(path), wire::kOpRecursive | wire::kOpOpenUp);
  EntrySink sink(0, kScanEntriesMax, kScanBytesMax);
  return gather_into(std::move(sink), std::move(options), "", std::move(what));
}

std::unique_ptr<GuestReader> GuestCore::reader_of(const CallPtr& call, std::string what) {
  return std::make_unique<FileReader>(shared_from_this(), call, std::move(what), 0);
}

awaitable<Result<std::unique_ptr<GuestReader>>> GuestCore::read(GuestUser user, std::string path,
                                                                std::uint64_t offset,
                                                                std::uint64_t length,
                                                                bool no_links) {
  const std::string what = "read " + path;
  OpOptions options =
      make_op(OpKind::Read, user, std::move(path), flag_if(no_links, wire::kOpNoLinks));
  options.offset = offset;
  options.length = length;
  options.window_bytes = kTransferBytes;
  auto call = begin(options);
  if (!call) co_return std::unexpected(call.error());
  co_return std::make_unique<FileReader>(shared_from_this(), *call, what, length);
}

awaitable<Result<std::unique_ptr<GuestWriter>>> GuestCore::write(GuestUser user, std::string path,
                                                                 WriteOptions options) {
  const std::string what = "write " + path;
  const std::uint32_t flags =
      flag_if(options.parents, wire::kOpParents) | flag_if(options.exclusive, wire::kOpExclusive) |
      flag_if(options.append, wire::kOpAppend) | flag_if(options.no_links, wire::kOpNoLinks);
  OpOptions op = make_op(OpKind::Write, user, std::move(path), flags);
  op.mode = options.mode;
  if (options.bulk) {
    auto upload = begin_upload(op, what);
    if (!upload) co_return std::unexpected(upload.error());
    if (*upload) co_return *std::move(upload);
  }
  auto call = begin(op);
  if (!call) co_return std::unexpected(call.error());
  co_return std::make_unique<FileWriter>(shared_from_this(), *call, what);
}

awaitable<Result<void>> GuestCore::make_folder(GuestUser user, std::string path, bool parents,
                                               std::uint32_t mode) {
  const std::string what = "make folder " + path;
  OpOptions options =
      make_op(OpKind::Mkdir, user, std::move(path), flag_if(parents, wire::kOpParents));
  options.mode = mode;
  auto done = co_await simple(std::move(options), what);
  if (!done) co_return std::unexpected(done.error());
  co_return Result<void>();
}

awaitable<Result<void>> GuestCore::move(GuestUser user, std::string from, std::string to,
                                        MoveOptions options) {
  const std::string what = "move " + from;
  const std::uint32_t flags =
      flag_if(options.parents, wire::kOpParents) | flag_if(options.replace, wire::kOpReplace);
  OpOptions op = make_op(OpKind::Move, user, std::move(from), flags);
  op.path2 = std::move(to);
  auto done = co_await simple(std::move(op), what);
  if (!done) co_return std::unexpected(done.error());
  co_return Result<void>();
}

awaitable<Result<std::uint64_t>> GuestCore::remove(GuestUser user, std::string path,
                                                   bool recursive) {
  const std::string what = "remove " + path;
  OpOptions options =
      make_op(OpKind::Remove, user, std::move(path), flag_if(recursive, wire::kOpRecursive));
  auto done = co_await simple(std::move(options), what);
  if (!done) co_return std::unexpected(done.error());
  co_return done->count;
}

// Returns after the first event, which only says that the watch stands.
awaitable<Result<std::unique_ptr<GuestWatch>>> GuestCore::watch(GuestUser user, std::string path,
                                                                bool recursive) {
  const std::string what = "watch " + path;
  const OpOptions options =
      make_op(OpKind::Watch, user, std::move(path), flag_if(recursive, wire::kOpRecursive));
  auto call = begin(options);
  if (!call) co_return std::unexpected(call.error());
  auto watch = std::make_unique<FileWatch>(shared_from_this(), *call, what);
  auto standing = co_await watch->next();
  if (!standing) co_return std::unexpected(standing.error());
  co_return watch;
}

awaitable<Result<std::unique_ptr<GuestReader>>> GuestCore::tar_out(GuestUser user,
                                                                   std::string path) {
  const std::string what = "archive " + path;
  OpOptions options = make_op(OpKind::TarOut, user, std::move(path));
  options.window_bytes = kTransferBytes;
  auto call = begin(options);
  if (!call) co_return std::unexpected(call.error());
  co_return std::make_unique<FileReader>(shared_from_this(), *call, what, 0);
}

awaitable<Result<std::unique_ptr<GuestWriter>>> GuestCore::tar_in(GuestUser user, std::string path,
                                                                  TarOptions options) {
  const std::string what = "unpack into " + path;
  const std::size_t folder_size = path.size() + 1;
  const std::uint32_t flags = flag_if(options.parents, wire::kOpParents) |
                              flag_if(options.tell, wire::kOpTell) |
                              flag_if(options.open_up, wire::kOpOpenUp);
  auto call = begin(make_op(OpKind::TarIn, user, std::move(path), flags));
  if (!call) co_return std::unexpected(call.error());
  co_return std::make_unique<FileWriter>(shared_from_this(), *call, what, folder_size);
}

}  // namespace caisson::engine
