#include "engine/channel/launcher_channel.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <deque>
#include <optional>
#include <unordered_map>

#include "engine/launcher/rendezvous.h"
#include "engine/launcher/wire.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace caisson::engine {
namespace {

namespace asio = boost::asio;
namespace wire = launcher_wire;
using wire::Request;

constexpr seconds kGreetingMax{30};
constexpr milliseconds kRetryMin{10};
constexpr milliseconds kRetryMax{1000};
constexpr std::size_t kWaitingMax = 8192;  // questions without an answer
constexpr int kMessagesPerTurn = 32;       // then others have their turn on the I/O thread

using Outcome = Result<sys::Message>;
using Completion = std::move_only_function<void(Outcome)>;

Error gone() {
  return Error{Errc::LauncherGone, "the launcher ended, and its sandboxes with it", 0};
}

// One connection after another to the launcher at `path`, and everybody who waits for an answer.
// Used on the I/O thread only. Handlers hold it, so it outlives the channel by a moment.
class Line : public std::enable_shared_from_this<Line> {
 public:
  Line(asio::any_io_executor executor, std::string path, LauncherChannel::Watcher watcher)
      : executor_(std::move(executor)),
        path_(std::move(path)),
        watcher_(std::move(watcher)),
        retry_(executor_) {}

  [[nodiscard]] Result<void> open();
  void close();
  [[nodiscard]] bool up() const noexcept { return phase_ == Phase::Up; }
  void end_with_next_loss() noexcept { farewell_ = true; }

  // Sends the question; the completion runs later, on the executor, in any case.
  void ask(Request kind, wire::Bytes bytes, std::vector<UniqueFd> fds, Completion completion);

 private:
  enum class Phase : std::uint8_t { Down, Greeting, Up, Closed };
  struct Waiting {
    Request kind{};
    Completion completion;
  };
  struct Outgoing {
    wire::Bytes bytes;
    std::vector<UniqueFd> fds;
  };

  void adopt(UniqueFd socket);
  void transmit(Outgoing message);
  [[nodiscard]] bool send_now(const Outgoing& message);
  void wait_readable();
  void wait_writable();
  void on_readable();
  void on_writable();
  void take(sys::Message message);
  void finish(Completion completion, Outcome outcome);
  void lose();
  void retry_later();
  void reconnect();
  void greeted();

  asio::any_io_executor executor_;
  std::string path_;
  LauncherChannel::Watcher watcher_;
  asio::steady_timer retry_;
  milliseconds back_off_ = kRetryMin;
  Phase phase_ = Phase::Down;
  bool farewell_ = false;
  // A handler of an older connection must not touch the newer one.
  std::uint64_t connection_ = 0;
  std::optional<asio::posix::stream_descriptor> socket_;
  std::uint32_t sequence_ = 0;
  std::unordered_map<std::uint32_t, Waiting> waiting_;
  std::deque<Outgoing> outgoing_;
};

// ----------------------------------------------------------------------------------------------
// connecting

Result<wire::Header> await_reply(int socket, TimePoint deadline) {
  if (!TRY(sys::wait_ready(socket, POLLIN, deadline)))
    return failure(Errc::LauncherGone, "the launcher does not answer");
  const auto message = sys::receive_message(socket, wire::kMessageBytesMax);
  if (!message || message->bytes.empty())
    return failure(Errc::LauncherGone, "the launcher refuses the connection");
  wire::Reader reader(message->bytes);
  const auto header = reader.get<wire::Header>();
  if (header.failed != 0) return std::unexpected(wire::read_error(reader));
  return header;
}

// The only part that blocks: a server has nothing to do before its launcher answers.
Result<void> Line::open() {
  UniqueFd socket = TRY(connect_launcher(path_));
  const TimePoint deadline = Clock::now() + kGreetingMax;
  for (const Request kind : {Request::Hello, Request::Watch}) {
    TRY(sys::send_message(socket.get(), wire::begin(kind).take(), {}));
    const wire::Header header = TRY(await_reply(socket.get(), deadline));
    if (header.kind != static_cast<std::uint32_t>(kind))
      return failure(Errc::Protocol, "launcher: the answer belongs to another question");
  }
  adopt(std::move(socket));
  phase_ = Phase::Up;
  return {};
}

void Line::adopt(UniqueFd socket) {
  ++connection_;
  socket_.emplace(executor_, socket.release());
  wait_readable();
}

void Line::close() {
  phase_ = Phase::Closed;
  ++connection_;
  retry_.cancel();
  socket_.reset();
  outgoing_.clear();
  // Nobody hears of it any more: the coroutines that waited are unwound.
  waiting_.clear();
}

void Line::retry_later() {
  retry_.expires_after(back_off_);
  back_off_ = std::min(back_off_ * 2, kRetryMax);
  retry_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
    if (!ec && self->phase_ == Phase::Down) self->reconnect();
  });
}

// While the keeper lives, connecting succeeds at once and the answer comes from the next worker.
void Line::reconnect() {
  auto socket = connect_launcher(path_);
  if (!socket) return retry_later();
  phase_ = Phase::Greeting;
  adopt(std::move(*socket));
  for (const Request kind : {Request::Hello, Request::Watch}) {
    const std::uint32_t sequence = ++sequence_;
    const std::uint64_t connection = connection_;
    auto done = [weak = weak_from_this(), kind, connection](const Outcome& outcome) {
      const auto self = weak.lock();
      if (!self || self->connection_ != connection) return;
      if (!outcome) return self->lose();
      if (kind == Request::Watch) self->greeted();
    };
    waiting_.emplace(sequence, Waiting{kind, std::move(done)});
    transmit({wire::begin(kind, sequence).take(), {}});
    if (phase_ != Phase::Greeting) return;  // it is gone again
  }
}

void Line::greeted() {
  if (phase_ != Phase::Greeting) return;
  phase_ = Phase::Up;
  back_off_ = kRetryMin;
  if (watcher_.on_back) watcher_.on_back();
}

void Line::lose() {
  if (phase_ == Phase::Closed || phase_ == Phase::Down) return;
  const bool was_up = phase_ == Phase::Up;
  phase_ = farewell_ ? Phase::Closed : Phase::Down;
  ++connection_;
  socket_.reset();
  outgoing_.clear();
  auto waiting = std::exchange(waiting_, {});
  const auto self = shared_from_this();  // the watcher may drop the channel
  if (was_up && !farewell_ && watcher_.on_lost) watcher_.on_lost();
  for (auto& [sequence, one] : waiting) finish(std::move(one.completion), std::unexpected(gone()));
  if (phase_ == Phase::Down) retry_later();
}

// ----------------------------------------------------------------------------------------------
// messages

void Line::finish(Completion completion, Outcome outcome) {
  auto later = [completion = std::move(completion), outcome = std::move(outcome)]() mutable {
    completion(std::move(outcome));
  };
  asio::post(executor_, std::move(later));
}

void Line::ask(Request kind, wire::Bytes bytes, std::vector<UniqueFd> fds, Completion completion) {
  const auto refuse = [&](Errc code, const char* why) {
    finish(std::move(completion), failure(code, why));
  };
  if (phase_ != Phase::Up) return refuse(Errc::LauncherGone, "no launcher answers");
  if (bytes.size() > wire::kMessageBytesMax)
    return refuse(Errc::TooLarge, "launcher: the request is longer than 64 KiB");
  if (waiting_.size() >= kWaitingMax)
    return refuse(Errc::Exhausted, "launcher: 8192 requests wait for an answer, its most");
  std::uint32_t sequence = ++sequence_;
  while (waiting_.contains(sequence)) sequence = ++sequence_;
  std::memcpy(bytes.data() + offsetof(wire::Header, sequence), &sequence, sizeof(sequence));
  waiting_.emplace(sequence, Waiting{kind, std::move(completion)});
  transmit({std::move(bytes), std::move(fds)});
}

// False when it has to wait: the socket is full.
bool Line::send_now(const Outgoing& message) {
  std::vector<int> numbers;
  numbers.reserve(message.fds.size());
  for (const UniqueFd& fd : message.fds) numbers.push_back(fd.get());
  const auto sent = sys::send_message(socket_->native_handle(), message.bytes, numbers);
  if (sent) return true;
  if (sent.error().sys_errno == EAGAIN) return false;
  lose();
  return true;
}

void Line::transmit(Outgoing message) {
  const bool first = outgoing_.empty();
  if (first && send_now(message)) return;
  outgoing_.push_back(std::move(message));
  if (first) wait_writable();
}

void Line::wait_writable() {
  auto ready = [self = shared_from_this(),
                connection = connection_](const boost::system::error_code& ec) {
    if (!ec && self->connection_ == connection) self->on_writable();
  };
  socket_->async_wait(asio::posix::stream_descriptor::wait_write, std::move(ready));
}

void Line::on_writable() {
  while (!outgoing_.empty()) {
    if (!send_now(outgoing_.front())) return wait_writable();
    if (outgoing_.empty()) return;  // lost meanwhile
    outgoing_.pop_front();
  }
}

void Line::wait_readable() {
  auto ready = [self = shared_from_this(),
                connection = connection_](const boost::system::error_code& ec) {
    if (!ec && self->connection_ == connection) self->on_readable();
  };
  socket_->async_wait(asio::posix::stream_descriptor::wait_read, std::move(ready));
}

void Line::on_readable() {
  const std::uint64_t connection = connection_;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    auto message = sys::receive_message(socket_->native_handle(), wire::kMessageBytesMax);
    if (!message && message.error().sys_errno == EAGAIN) break;
    if (!message || message->bytes.empty()) return lose();
    take(std::move(*message));
    if (connection_ != connection) return;
  }
  wait_readable();
}

// An answer for somebody who waits, or the news that a sandbox ended. Anything else is a bug on the
// other side, after which no answer can be trusted to be ours.
void Line::take(sys::Message message) {
  wire::Reader reader(message.bytes);
  const auto header = reader.get<wire::Header>();
  if (header.kind == static_cast<std::uint32_t>(Request::Ended) && header.sequence == 0) {
    const wire::EndedNote note = wire::read_ended(reader);
    if (!reader.finish()) return lose();
    if (watcher_.on_ended) watcher_.on_ended(note.id, note.status);
    return;
  }
  const auto at = waiting_.find(header.sequence);
  if (message.bytes.size() < sizeof(header) || at == waiting_.end() ||
      header.kind != static_cast<std::uint32_t>(at->second.kind))
    return lose();
  Completion completion = std::move(at->second.completion);
  waiting_.erase(at);
  if (header.failed != 0)
    return finish(std::move(completion), std::unexpected(wire::read_error(reader)));
  message.bytes.erase(message.bytes.begin(),
                      message.bytes.begin() + static_cast<std::ptrdiff_t>(sizeof(header)));
  finish(std::move(completion), std::move(message));
}

// ----------------------------------------------------------------------------------------------
// questions

awaitable<Outcome> ask(std::shared_ptr<Line> line, Request kind, wire::Bytes bytes,
                       std::vector<UniqueFd> fds) {
  auto initiate = [&](auto handler) {
    line->ask(kind, std::move(bytes), std::move(fds), std::move(handler));
  };
  Outcome outcome = co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Outcome)>(
      initiate, asio::use_awaitable);
  co_return outcome;
}

wire::Bytes about(Request kind, const std::string& id) {
  return wire::begin(kind).put_string(id).take();
}

// The reply's body through `read`, whole; with exactly `fds` descriptors.
template <class Read>
auto decode_words(const Outcome& outcome, Read read)
    -> Result<decltype(read(std::declval<wire::Reader&>()))> {
  if (!outcome) return std::unexpected(outcome.error());
  wire::Reader reader(outcome->bytes);
  auto value = read(reader);
  TRY(reader.finish());
  return value;
}

Result<void> need_descriptors(const Outcome& outcome, std::size_t wanted) {
  if (outcome->fds.size() == wanted) return {};
  return failure(Errc::Protocol, "launcher: other descriptors came than were asked for");
}

template <class Read>
auto decode(const Outcome& outcome, std::size_t fds, Read read)
    -> Result<decltype(read(std::declval<wire::Reader&>()))> {
  auto value = TRY(decode_words(outcome, read));
  TRY(need_descriptors(outcome, fds));
  return value;
}

constexpr auto kNothing = [](wire::Reader&) { return true; };

struct Launching {
  LaunchReply reply;
  wire::GateShape gate;
};

Launching read_launched(wire::Reader& reader) {
  Launching made;
  LaunchReply& reply = made.reply;
  reply.id = reader.get_string();
  reply.nonce = reader.get<Nonce>();
  reply.init_pid = reader.get<std::int32_t>();
  reply.record = wire::read_record(reader);
  made.gate = wire::read_gate(reader);
  return made;
}

class SocketChannel final : public LauncherChannel {
 public:
  explicit SocketChannel(std::shared_ptr<Line> line) : line_(std::move(line)) {}
  SocketChannel(const SocketChannel&) = delete;
  SocketChannel& operator=(const SocketChannel&) = delete;
  ~SocketChannel() override { line_->close(); }

  awaitable<Result<LaunchReply>> launch(LaunchRequest request,
                                        std::vector<UniqueFd> folders) override {
    auto writer = wire::begin(Request::Launch);
    wire::write(writer, request);
    Outcome outcome = co_await ask(line_, Request::Launch, writer.take(), std::move(folders));
    auto made = decode_words(outcome, read_launched);
    if (!made) co_return std::unexpected(made.error());
    const auto came = need_descriptors(outcome, 1 + made->gate.descriptors());
    if (!came) co_return std::unexpected(came.error());
    made->reply.gate = wire::take_gate(made->gate, outcome->fds);
    made->reply.stream = std::move(outcome->fds.front());
    co_return std::move(made->reply);
  }

  awaitable<Result<Joined>> join(std::string id) override {
    Outcome outcome = co_await ask(line_, Request::Connect, about(Request::Connect, id), {});
    const auto nonce = decode(outcome, 1, [](wire::Reader& reader) { return reader.get<Nonce>(); });
    if (!nonce) co_return std::unexpected(nonce.error());
    Joined joined{std::move(outcome->fds.front()), *nonce};
    co_return joined;
  }

  awaitable<Result<Status>> destroy(std::string id) override {
    const Outcome outcome = co_await ask(line_, Request::Destroy, about(Request::Destroy, id), {});
    co_return decode(outcome, 0, wire::read_status);
  }

  awaitable<Result<Status>> status(std::string id) override {
    const Outcome outcome = co_await ask(line_, Request::Status, about(Request::Status, id), {});
    co_return decode(outcome, 0, wire::read_status);
  }

  awaitable<Result<void>> freeze(std::string id) override {
    return plain(Request::Freeze, about(Request::Freeze, id));
  }
  awaitable<Result<void>> thaw(std::string id) override {
    return plain(Request::Thaw, about(Request::Thaw, id));
  }
  awaitable<Result<Status>> reclaim(std::string id) override {
    const Outcome outcome = co_await ask(line_, Request::Reclaim, about(Request::Reclaim, id), {});
    co_return decode(outcome, 0, wire::read_status);
  }
  awaitable<Result<void>> set_limits(std::string id, Limits limits) override {
    auto writer = wire::begin(Request::SetLimits);
    writer.put_string(id);
    wire::write(writer, limits);
    return plain(Request::SetLimits, writer.take());
  }

  awaitable<Result<std::vector<Living>>> living() override {
    std::vector<Living> all;
    std::string after;
    for (;;) {
      const Outcome outcome =
          co_await ask(line_, Request::Living, about(Request::Living, after), {});
      auto page = decode(outcome, 0, wire::read_page);
      if (!page) co_return std::unexpected(page.error());
      for (Living& one : page->sandboxes) all.push_back(std::move(one));
      if (!page->more) co_return all;
      if (page->sandboxes.empty() || all.size() > kSandboxesMax)
        co_return failure(Errc::Protocol, "launcher: a list without an end");
      after = all.back().id;
    }
  }

  awaitable<Result<UniqueFd>> socket_inside(std::string id, int family) override {
    auto writer = wire::begin(Request::SocketInside);
    writer.put_string(id).put(static_cast<std::int32_t>(family));
    Outcome outcome = co_await ask(line_, Request::SocketInside, writer.take(), {});
    const auto came = decode(outcome, 1, kNothing);
    if (!came) co_return std::unexpected(came.error());
    co_return std::move(outcome->fds.front());
  }

  awaitable<Result<GateSockets>> open_gate(std::string id, std::vector<std::uint16_t> ports,
                                           std::uint16_t proxy) override {
    auto writer = wire::begin(Request::OpenGate);
    writer.put_string(id);
    wire::write_ports(writer, ports);
    writer.put(proxy);
    Outcome outcome = co_await ask(line_, Request::OpenGate, writer.take(), {});
    const auto shape = decode_words(outcome, wire::read_gate);
    if (!shape) co_return std::unexpected(shape.error());
    const auto came = need_descriptors(outcome, shape->descriptors());
    if (!came) co_return std::unexpected(came.error());
    co_return wire::take_gate(*shape, outcome->fds);
  }

  awaitable<Result<Status>> stop(std::string id) override {
    const Outcome outcome = co_await ask(line_, Request::StopOne, about(Request::StopOne, id), {});
    co_return decode(outcome, 0, wire::read_status);
  }

  awaitable<Result<PoolFacts>> pool() override {
    const Outcome outcome =
        co_await ask(line_, Request::Pool, wire::begin(Request::Pool).take(), {});
    co_return decode(outcome, 0, wire::read_pool);
  }

  awaitable<Result<Sealed>> seal(std::string id, std::string layer) override {
    auto writer = wire::begin(Request::Seal);
    writer.put_string(id).put_string(layer);
    const Outcome outcome = co_await ask(line_, Request::Seal, writer.take(), {});
    co_return decode(outcome, 0, wire::read_sealed);
  }

  awaitable<Result<void>> restack(std::string id, LayerStack stack, bool end_processes) override {
    auto writer = wire::begin(Request::Restack);
    writer.put_string(id);
    wire::write(writer, stack);
    writer.put(static_cast<std::uint8_t>(end_processes ? 1 : 0));
    return plain(Request::Restack, writer.take());
  }

  awaitable<Result<std::uint64_t>> commit_layer(std::string id, std::string layer) override {
    auto writer = wire::begin(Request::CommitLayer);
    writer.put_string(id).put_string(layer);
    const Outcome outcome = co_await ask(line_, Request::CommitLayer, writer.take(), {});
    co_return decode(outcome, 0, [](wire::Reader& reader) { return reader.get<std::uint64_t>(); });
  }

  awaitable<Result<void>> drop(StoreEntry::Kind kind, std::string name) override {
    auto writer = wire::begin(Request::Drop);
    wire::write_kind(writer, kind);
    writer.put_string(name);
    return plain(Request::Drop, writer.take());
  }

  awaitable<Result<std::vector<StoreEntry>>> stored() override {
    std::vector<StoreEntry> all;
    for (;;) {
      auto writer = wire::begin(Request::Stored);
      writer.put(static_cast<std::uint32_t>(all.size()));
      const Outcome outcome = co_await ask(line_, Request::Stored, writer.take(), {});
      auto page = decode(outcome, 0, wire::read_stored);
      if (!page) co_return std::unexpected(page.error());
      for (StoreEntry& one : page->entries) all.push_back(std::move(one));
      if (!page->more) co_return all;
      if (page->entries.empty())
        co_return failure(Errc::Protocol, "launcher: a list without an end");
    }
  }

  awaitable<Result<void>> set_volume(std::string name, std::uint64_t bytes_max) override {
    auto writer = wire::begin(Request::SetVolume);
    writer.put_string(name).put(bytes_max);
    return plain(Request::SetVolume, writer.take());
  }

  awaitable<Result<void>> sync_store() override {
    return plain(Request::SyncStore, wire::begin(Request::SyncStore).take());
  }

  awaitable<Result<SavedMemory>> save_memory(std::string id, std::string memory,
                                             bool then_ends) override {
    auto writer = wire::begin(Request::SaveMemory);
    writer.put_string(id).put_string(memory).put(static_cast<std::uint8_t>(then_ends ? 1 : 0));
    const Outcome outcome = co_await ask(line_, Request::SaveMemory, writer.take(), {});
    co_return decode(outcome, 0, wire::read_saved);
  }

  awaitable<Result<void>> go_on(std::string id) override {
    return plain(Request::GoOn, about(Request::GoOn, id));
  }

  awaitable<Result<SavedMemory>> measure(std::string memory) override {
    const Outcome outcome =
        co_await ask(line_, Request::Measure, about(Request::Measure, memory), {});
    co_return decode(outcome, 0, wire::read_saved);
  }

  awaitable<Result<void>> stop_launcher() override {
    line_->end_with_next_loss();
    return plain(Request::Stop, wire::begin(Request::Stop).take());
  }

  [[nodiscard]] bool connected() const noexcept override { return line_->up(); }

 private:
  awaitable<Result<void>> plain(Request kind, wire::Bytes bytes) {
    const Outcome outcome = co_await ask(line_, kind, std::move(bytes), {});
    const auto done = decode(outcome, 0, kNothing);
    if (!done) co_return std::unexpected(done.error());
    co_return Result<void>();
  }

  std::shared_ptr<Line> line_;
};

}  // namespace

Result<std::unique_ptr<LauncherChannel>> LauncherChannel::open(
    boost::asio::any_io_executor executor, std::string path, Watcher watcher) {
  auto line = std::make_shared<Line>(std::move(executor), std::move(path), std::move(watcher));
  TRY(line->open());
  return std::make_unique<SocketChannel>(std::move(line));
}

}  // namespace caisson::engine
