#include "engine/launcher/service.h"

#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include "engine/launcher/wire.h"
#include "engine/native/trash.h"
#include "sys/file.h"

namespace caisson::engine {
namespace {

using launcher_wire::Request;

constexpr int kEventsMax = 64;
// A process that was killed lets go of its descriptors one after the other: the launcher's lock may
// be free a moment before the record of its last sandbox is. So we look again a few times.
constexpr milliseconds kSweeps[] = {milliseconds(20), milliseconds(200), milliseconds(2000),
                                    milliseconds(20'000)};
constexpr std::int64_t kPatienceMaxMs = 3'600'000;

// What an event is about: the kind in the highest bits, a number below.
constexpr unsigned kSourceShift = 56;
enum class Source : std::uint64_t { Listener, Lifeline, Signals, Peer, Sandbox, Errand };

std::uint64_t tag(Source source, std::uint64_t number = 0) {
  return (static_cast<std::uint64_t>(source) << kSourceShift) | number;
}

bool would_block(const Error& error) {
  return error.sys_errno == EAGAIN || error.sys_errno == EWOULDBLOCK;
}

}  // namespace

Result<Service> Service::open(LauncherCore& core, ServiceOptions options, int listener,
                              int lifeline) {
  Service service(core, std::move(options));
  TRY_IN("what a killed launcher left", native::empty_trash(service.options_.state_dir));
  service.listener_ = listener;
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return sys_failure("epoll", errno);
  service.epoll_ = TRY(sys::park(std::move(epoll)));
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGTERM);
  ::sigaddset(&wanted, SIGINT);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  UniqueFd signals(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return sys_failure("signalfd", errno);
  service.signals_ = TRY(sys::park(std::move(signals)));
  TRY(service.watch(listener, tag(Source::Listener), EPOLLIN, EPOLL_CTL_ADD));
  TRY(service.watch(lifeline, tag(Source::Lifeline), EPOLLIN, EPOLL_CTL_ADD));
  TRY(service.watch(service.signals_.get(), tag(Source::Signals), EPOLLIN, EPOLL_CTL_ADD));
  return service;
}

Result<void> Service::watch(int fd, std::uint64_t tag, std::uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) return sys_failure("epoll_ctl", errno);
  return {};
}

// ----------------------------------------------------------------------------------------------
// the loop

int Service::patience() const {
  if (more_to_make_) return 0;  // nothing asked: make one thing ahead, then look again
  std::optional<TimePoint> due = core_->next_check();
  if (peers_.empty() && !orphans_ended_ && core_->count() > 0) {
    const TimePoint grace = alone_since_ + options_.orphan_grace;
    due = due ? std::min(*due, grace) : grace;
  }
  if (const auto sweep = next_sweep()) due = due ? std::min(*due, *sweep) : *sweep;
  if (!due) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*due - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kPatienceMaxMs));
}

Result<void> Service::run() {
  std::array<epoll_event, kEventsMax> events{};
  while (!stopping_) {
    const int ready = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, patience());
    if (ready < 0 && errno != EINTR) return sys_failure("epoll_wait", errno);
    core_->tick();
    check_orphans();
    sweep_again();
    if (ready == 0 && more_to_make_) more_to_make_ = core_->refill();
    for (int i = 0; i < ready && !stopping_; ++i) on_event(events[static_cast<std::size_t>(i)]);
  }
  destroy_all();
  // Who asked for the end hears of it when it is true.
  if (farewell_)
    send(farewell_->first, Answer{launcher_wire::Writer(farewell_->second).take(), {}, {}});
  return {};
}

void Service::on_event(const epoll_event& event) {
  const std::uint64_t number = event.data.u64 & ((std::uint64_t{1} << kSourceShift) - 1);
  switch (static_cast<Source>(event.data.u64 >> kSourceShift)) {
    case Source::Listener:
      return on_connection();
    case Source::Peer:
      return on_peer(number, event.events);
    case Source::Sandbox:
      return on_end(number);
    case Source::Errand:
      return on_errand(number);
    case Source::Lifeline:  // the keeper is gone: nothing would start us again
    case Source::Signals:
      stopping_ = true;
  }
}

// ----------------------------------------------------------------------------------------------
// peers

void Service::on_connection() {
  UniqueFd accepted(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted) return;  // it left again
  const auto who = sys::peer_identity(accepted.get());
  const bool known = who && (who->uid == 0 || who->uid == options_.server_uid);
  auto parked = sys::park(std::move(accepted));
  if (!parked) return;
  if (!known || peers_.size() >= kPeersMax) {
    // A helper process may hold a copy of the descriptor: closing alone would not tell the peer.
    (void)::shutdown(parked->get(), SHUT_RDWR);
    return;
  }
  const std::uint64_t number = next_number_++;
  if (!watch(parked->get(), tag(Source::Peer, number), EPOLLIN, EPOLL_CTL_ADD)) return;
  peers_.emplace(number, Peer{std::move(*parked), false, {}});
  orphans_ended_ = false;
}

void Service::drop(std::uint64_t number) {
  const auto at = peers_.find(number);
  if (at == peers_.end()) return;
  (void)watch(at->second.socket.get(), 0, 0, EPOLL_CTL_DEL);
  (void)::shutdown(at->second.socket.get(), SHUT_RDWR);
  peers_.erase(at);
  if (peers_.empty()) alone_since_ = Clock::now();
}

// While answers wait to be taken, nothing more is read from that peer.
void Service::on_peer(std::uint64_t number, std::uint32_t events) {
  const auto at = peers_.find(number);
  if (at == peers_.end()) return;
  Peer& peer = at->second;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0) return drop(number);
  if (!peer.waiting.empty()) {
    std::deque<Answer> waiting = std::exchange(peer.waiting, {});
    (void)watch(peer.socket.get(), tag(Source::Peer, number), EPOLLIN, EPOLL_CTL_MOD);
    for (Answer& answer : waiting) send(number, std::move(answer));
    return;
  }
  auto message = sys::receive_message(peer.socket.get(), launcher_wire::kMessageBytesMax);
  if (!message && would_block(message.error())) return;
  if (!message || message->bytes.empty()) return drop(number);
  on_request(number, std::move(*message));
  more_to_make_ = true;
}

void Service::send(std::uint64_t number, Answer answer) {
  const auto at = peers_.find(number);
  if (at == peers_.end()) return;
  Peer& peer = at->second;
  if (peer.waiting.empty()) {
    std::vector<int> fds;
    fds.reserve(answer.fds.size());
    for (const UniqueFd& fd : answer.fds) fds.push_back(fd.get());
    const auto sent = sys::send_message(peer.socket.get(), answer.bytes, fds);
    if (sent) return;
    if (!would_block(sent.error())) return drop(number);
    (void)watch(peer.socket.get(), tag(Source::Peer, number), EPOLLOUT, EPOLL_CTL_MOD);
  }
  peer.waiting.push_back(std::move(answer));
  if (peer.waiting.size() > kAnswersQueuedMax) drop(number);
}

// ----------------------------------------------------------------------------------------------
// requests

void Service::on_request(std::uint64_t number, sys::Message message) {
  const auto header = launcher_wire::Reader(message.bytes).get<launcher_wire::Header>();
  if (auto own = own_request(number, header, message)) return send(number, std::move(*own));
  if (stopping_) return;  // its answer is the last one
  if (header.version == launcher_wire::kLauncherVersion && hold_first(number, message)) return;
  carry_out(number, std::move(message));
}

void Service::carry_out(std::uint64_t number, sys::Message message) {
  const auto header = launcher_wire::Reader(message.bytes).get<launcher_wire::Header>();
  if (header.version == launcher_wire::kLauncherVersion && needs_errand(message.bytes))
    return send_on_errand(number, std::move(message));
  const auto kind = static_cast<Request>(header.kind);
  if (kind == Request::Destroy || kind == Request::StopOne) {
    launcher_wire::Reader reader(message.bytes);
    reader.get<launcher_wire::Header>();
    end_save(reader.get_string());
  }
  Answer answer = core_request(header, std::move(message));
  if (!answer.id.empty()) {
    if (kind == Request::Launch) look_after(answer.id);
    if (kind == Request::Destroy || kind == Request::StopOne) forget(answer.id);
    // Whoever asks may reap an init before its end is announced to us.
    if (kind == Request::Status) settle(answer.id);
  }
  send(number, std::move(answer));
}

// What concerns the connection or the whole launcher, and no sandbox.
std::optional<Answer> Service::own_request(std::uint64_t number,
                                           const launcher_wire::Header& header,
                                           const sys::Message& message) {
  const auto kind = static_cast<Request>(header.kind);
  if (header.version != launcher_wire::kLauncherVersion ||
      (kind != Request::Watch && kind != Request::Stop))
    return std::nullopt;
  if (message.bytes.size() != sizeof(header) || !message.fds.empty())
    return refuse(header, failure(Errc::Protocol, "launcher message: bytes left over").error());
  if (kind == Request::Stop) {
    stopping_ = true;
    farewell_.emplace(number, header);
    return std::nullopt;
  }
  peers_.at(number).watches = true;
  return Answer{launcher_wire::Writer(header).take(), {}, {}};
}

Answer Service::core_request(const launcher_wire::Header& header, sys::Message message) {
  const auto kind = static_cast<Request>(header.kind);
  Ceiling ceiling;
  if (kind == Request::Launch || kind == Request::SetLimits) {
    const auto loaded = load_ceiling(options_.state_dir);
    if (!loaded) return refuse(header, loaded.error());
    ceiling = *loaded;
  }
  return handle(*core_, std::move(message), ceiling);
}

// An init behind another kernel may take seconds until it is silent, or never be: only whoever
// wants that waits. True when the request is dealt with, or will be.
bool Service::hold_first(std::uint64_t number, sys::Message& message) {
  const std::string id = silenced_by(message.bytes);
  if (id.empty()) return false;
  const auto header = launcher_wire::Reader(message.bytes).get<launcher_wire::Header>();
  auto child = core_->start_hold(id);
  if (!child && child.error().code == Errc::NotFound) return false;  // the request itself says it
  Result<void> taken;
  if (!child) {
    taken = std::unexpected(child.error());
  } else if (!*child) {
    return false;
  } else if (errands_.size() >= kErrandsMax) {
    taken = failure(Errc::Exhausted, "too many wait for the disk; try again");
  } else {
    const std::uint64_t errand = next_number_++;
    taken = watch((*child)->pidfd(), tag(Source::Errand, errand), EPOLLIN | EPOLLONESHOT,
                  EPOLL_CTL_ADD);
    if (taken) {
      errands_.emplace(errand, Errand{std::move(**child), number, std::move(message), true});
      return true;
    }
  }
  if (child) (void)core_->end_hold(id, false);
  send(number, refuse(header, taken.error()));
  return true;
}

void Service::on_held(Errand errand) {
  const auto header = launcher_wire::Reader(errand.message.bytes).get<launcher_wire::Header>();
  const std::string id = silenced_by(errand.message.bytes);
  const auto ended = errand.child.wait();
  const auto silent = core_->end_hold(id, ended && ended->signal == 0 && ended->code == 0);
  if (!silent) return send(errand.peer, refuse(header, silent.error()));
  if (peers_.contains(errand.peer)) carry_out(errand.peer, std::move(errand.message));
  core_->release(id);  // where nothing came of it
}

// The disk may take a second; other sandboxes do not wait for it.
void Service::send_on_errand(std::uint64_t number, sys::Message message) {
  const auto header = launcher_wire::Reader(message.bytes).get<launcher_wire::Header>();
  Result<sys::Child> child =
      errands_.size() < kErrandsMax
          ? start_errand(*core_, message.bytes)
          : Result<sys::Child>(failure(Errc::Exhausted, "too many wait for the disk; try again"));
  const std::uint64_t errand = next_number_++;
  Result<void> watched;
  if (child)
    watched =
        watch(child->pidfd(), tag(Source::Errand, errand), EPOLLIN | EPOLLONESHOT, EPOLL_CTL_ADD);
  if (!child) return send(number, refuse(header, child.error()));
  if (!watched) {
    if (is_memory_errand(message.bytes)) (void)end_memory_errand(*core_, message.bytes, false);
    return send(number, refuse(header, watched.error()));
  }
  errands_.emplace(errand, Errand{std::move(*child), number, std::move(message), false});
}

void Service::on_errand(std::uint64_t number) {
  const auto at = errands_.find(number);
  if (at == errands_.end()) return;
  Errand errand = std::move(at->second);
  errands_.erase(at);
  if (errand.holds) return on_held(std::move(errand));
  const auto header = launcher_wire::Reader(errand.message.bytes).get<launcher_wire::Header>();
  const auto ended = errand.child.wait();
  const bool whole = ended && ended->signal == 0 && ended->code == 0;
  if (is_memory_errand(errand.message.bytes))
    return send(errand.peer, end_memory_errand(*core_, errand.message.bytes, whole));
  if (!whole) {
    return send(
        errand.peer,
        refuse(header, failure(Errc::Internal, "the store could not be written to disk").error()));
  }
  Answer answer = core_request(header, std::move(errand.message));
  if (!answer.id.empty()) {
    // A layer is made of a sandbox that goes; of one whose memory was asked for, only its end is
    // looked at.
    if (static_cast<Request>(header.kind) == Request::Reclaim) {
      settle(answer.id);
    } else {
      forget(answer.id);
    }
  }
  send(errand.peer, std::move(answer));
}

// Before a sandbox goes: what saves it may be a process in it, and a child of ours. Its init cannot
// be waited for before that one was.
void Service::end_save(const std::string& id) {
  std::vector<std::uint64_t> saves;
  for (const auto& [number, errand] : errands_) {
    if (!id.empty() && saved_by(errand.message.bytes) == id) saves.push_back(number);
  }
  for (const std::uint64_t number : saves) {
    (void)errands_.at(number).child.signal(SIGKILL);
    on_errand(number);
  }
}

// ----------------------------------------------------------------------------------------------
// sandboxes

// The event comes once. Helper processes hold copies of the descriptor, so the kernel may still
// speak of it after we have closed ours: the number is then nobody's.
void Service::look_after(const std::string& id) {
  const std::uint64_t number = next_number_++;
  if (!watch(core_->pidfd(id), tag(Source::Sandbox, number), EPOLLIN | EPOLLONESHOT, EPOLL_CTL_ADD))
    return settle(id);
  awaited_.emplace(number, id);
  number_of_.emplace(id, number);
}

void Service::forget(const std::string& id) {
  const auto at = number_of_.find(id);
  if (at == number_of_.end()) return;
  awaited_.erase(at->second);
  number_of_.erase(at);
}

void Service::on_end(std::uint64_t number) {
  const auto at = awaited_.find(number);
  if (at == awaited_.end()) return;
  const std::string id = at->second;
  settle(id);
}

// Tells the watchers, once, when the sandbox has ended.
void Service::settle(const std::string& id) {
  const auto status = core_->status(id);
  if (!status || status->end == EndReason::Running) return;
  forget(id);
  if (orphaned() && orphans_ended_) {
    (void)core_->retire(id);  // nobody will come for it
    return;
  }
  std::vector<std::uint64_t> watchers;
  for (const auto& [number, peer] : peers_) {
    if (peer.watches) watchers.push_back(number);
  }
  for (const std::uint64_t number : watchers) {
    auto writer = launcher_wire::begin(Request::Ended);
    launcher_wire::write(writer, launcher_wire::EndedNote{id, *status});
    send(number, Answer{writer.take(), {}, {}});
  }
}

bool Service::orphaned() const {
  return peers_.empty() && Clock::now() >= alone_since_ + options_.orphan_grace;
}

void Service::check_orphans() {
  if (orphans_ended_ || !orphaned()) return;
  orphans_ended_ = true;
  for (const Living& one : core_->living("", kSandboxesMax)) {
    if (one.limits.life_us != 0 && !one.ended) continue;
    forget(one.id);
    end_save(one.id);
    (void)core_->retire(one.id);
  }
}

std::optional<TimePoint> Service::next_sweep() const {
  if (sweeps_ >= std::size(kSweeps)) return std::nullopt;
  return started_ + kSweeps[sweeps_];
}

void Service::sweep_again() {
  const auto due = next_sweep();
  if (!due || Clock::now() < *due) return;
  ++sweeps_;
  (void)core_->sweep();  // what is left stays on record
}

void Service::destroy_all() {
  for (const std::string& id : core_->list()) {
    end_save(id);
    (void)core_->retire(id);
  }
}

}  // namespace caisson::engine
