#include "engine/launcher/client.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "engine/launcher/rendezvous.h"
#include "sys/file.h"
#include "sys/raw.h"
#include "sys/socket.h"
#include "sys/spawn.h"

namespace caisson::engine {
namespace {

constexpr int kLauncherSocket = 3;
constexpr seconds kFarewell{10};

}  // namespace

Result<std::unique_ptr<LauncherClient>> LauncherClient::spawn(const std::string& program,
                                                              const std::string& state_dir) {
  sys::SocketPair pair = TRY(sys::packet_pair());
  const sys::HandedFd handed[] = {{.fd = pair.theirs.get(), .number = kLauncherSocket}};
  sys::Child process = TRY(sys::spawn(program, {"launcher", "--private", "--state-dir", state_dir},
                                      handed, sys::Session::Shared));
  std::unique_ptr<LauncherClient> client(
      new LauncherClient(std::move(process), std::move(pair.ours)));
  pair.theirs.reset();
  TRY_IN("'" + program + " launcher' does not answer", client->greet(std::nullopt));
  return client;
}

Result<std::unique_ptr<LauncherClient>> LauncherClient::attach(const std::string& socket,
                                                               TimePoint deadline) {
  UniqueFd connected = TRY(connect_launcher(socket));
  std::unique_ptr<LauncherClient> client(new LauncherClient({}, std::move(connected)));
  TRY_IN("the launcher at " + socket, client->greet(deadline));
  return client;
}

Result<void> LauncherClient::greet(std::optional<TimePoint> deadline) {
  const sys::Message answer = TRY(ask(launcher_wire::Request::Hello,
                                      begin(launcher_wire::Request::Hello).take(), {}, deadline));
  launcher_wire::Reader reader(answer.bytes);
  greeting_ = launcher_wire::read_greeting(reader);
  return reader.finish();
}

LauncherClient::~LauncherClient() {
  socket_.reset();
  if (process_.alive()) (void)sys::wait_ready(process_.pidfd(), POLLIN, Clock::now() + kFarewell);
}

launcher_wire::Writer LauncherClient::begin(launcher_wire::Request kind) {
  return launcher_wire::begin(kind);
}

// The next message, whatever it is.
Result<sys::Message> LauncherClient::receive(std::optional<TimePoint> deadline) {
  if (!TRY(sys::wait_ready(socket_.get(), POLLIN, deadline)))
    return failure(Errc::LauncherGone, "no answer in time");
  auto message = sys::receive_message(socket_.get(), launcher_wire::kMessageBytesMax);
  if (!message && message.error().code != Errc::Gone) return message;
  if (!message || message->bytes.empty()) return failure(Errc::Gone, "the launcher is gone");
  return message;
}

Result<sys::Message> LauncherClient::ask(launcher_wire::Request kind, launcher_wire::Bytes message,
                                         std::span<const int> fds,
                                         std::optional<TimePoint> deadline) {
  if (message.size() > launcher_wire::kMessageBytesMax)
    return failure(Errc::Exhausted, "launcher: the request is longer than 64 KiB");
  const std::scoped_lock lock(mutex_);
  const std::uint32_t sequence = ++sequence_;
  std::memcpy(message.data() + offsetof(launcher_wire::Header, sequence), &sequence,
              sizeof(sequence));
  const auto sent = sys::send_message(socket_.get(), message, fds);
  if (!sent) return failure(Errc::Gone, "the launcher is gone: " + sent.error().message);
  for (;;) {
    sys::Message reply = TRY(receive(deadline));
    launcher_wire::Reader reader(reply.bytes);
    const auto header = reader.get<launcher_wire::Header>();
    if (header.kind == static_cast<std::uint32_t>(launcher_wire::Request::Ended)) {
      ended_.push_back(launcher_wire::read_ended(reader));
      if (ended_.size() > kSandboxesMax) ended_.pop_front();
      continue;
    }
    if (header.sequence != sequence || header.kind != static_cast<std::uint32_t>(kind))
      return failure(Errc::Protocol, "launcher: the answer belongs to another question");
    if (header.failed != 0) return std::unexpected(launcher_wire::read_error(reader));
    reply.bytes.erase(reply.bytes.begin(), reply.bytes.begin() + sizeof(launcher_wire::Header));
    return reply;
  }
}

Result<sys::Message> LauncherClient::ask_about(launcher_wire::Request kind, const std::string& id) {
  auto writer = begin(kind);
  writer.put_string(id);
  return ask(kind, writer.take(), {});
}

Result<LaunchReply> LauncherClient::launch(const LaunchRequest& request,
                                           const std::vector<UniqueFd>& folders) {
  auto writer = begin(launcher_wire::Request::Launch);
  launcher_wire::write(writer, request);
  std::vector<int> numbers;
  numbers.reserve(folders.size());
  for (const UniqueFd& folder : folders) numbers.push_back(folder.get());
  sys::Message answer = TRY(ask(launcher_wire::Request::Launch, writer.take(), numbers));
  launcher_wire::Reader reader(answer.bytes);
  LaunchReply reply;
  reply.id = reader.get_string();
  reply.nonce = reader.get<Nonce>();
  reply.init_pid = reader.get<std::int32_t>();
  reply.record = launcher_wire::read_record(reader);
  const auto shape = launcher_wire::read_gate(reader);
  TRY(reader.finish());
  if (answer.fds.size() != 1 + shape.descriptors())
    return failure(Errc::Protocol, "launcher: no stream came with the sandbox");
  reply.gate = launcher_wire::take_gate(shape, answer.fds);
  reply.stream = std::move(answer.fds.front());
  return reply;
}

Result<UniqueFd> LauncherClient::connect(const std::string& id) {
  return std::move(TRY(join(id)).first);
}

Result<std::pair<UniqueFd, Nonce>> LauncherClient::join(const std::string& id) {
  sys::Message answer = TRY(ask_about(launcher_wire::Request::Connect, id));
  launcher_wire::Reader reader(answer.bytes);
  const auto nonce = reader.get<Nonce>();
  TRY(reader.finish());
  if (answer.fds.size() != 1) return failure(Errc::Protocol, "launcher: no stream came");
  return std::pair(std::move(answer.fds.front()), nonce);
}

Result<std::vector<Living>> LauncherClient::living() {
  std::vector<Living> all;
  for (std::string after;;) {
    const sys::Message answer = TRY(ask_about(launcher_wire::Request::Living, after));
    launcher_wire::Reader reader(answer.bytes);
    launcher_wire::LivingPage page = launcher_wire::read_page(reader);
    TRY(reader.finish());
    for (Living& one : page.sandboxes) all.push_back(std::move(one));
    if (!page.more) return all;
    if (page.sandboxes.empty() || all.size() > kSandboxesMax)
      return failure(Errc::Protocol, "launcher: a list without an end");
    after = all.back().id;
  }
}

Result<UniqueFd> LauncherClient::socket_inside(const std::string& id, int family) {
  auto writer = begin(launcher_wire::Request::SocketInside);
  writer.put_string(id).put(static_cast<std::int32_t>(family));
  sys::Message answer = TRY(ask(launcher_wire::Request::SocketInside, writer.take(), {}));
  if (answer.fds.size() != 1) return failure(Errc::Protocol, "launcher: no socket came");
  return std::move(answer.fds.front());
}

Result<void> LauncherClient::stop() {
  TRY(ask(launcher_wire::Request::Stop, begin(launcher_wire::Request::Stop).take(), {}));
  return {};
}

Result<void> LauncherClient::watch() {
  TRY(ask(launcher_wire::Request::Watch, begin(launcher_wire::Request::Watch).take(), {}));
  return {};
}

Result<launcher_wire::EndedNote> LauncherClient::next_ended(TimePoint deadline) {
  const std::scoped_lock lock(mutex_);
  if (ended_.empty()) {
    const sys::Message message = TRY(receive(deadline));
    launcher_wire::Reader reader(message.bytes);
    const auto header = reader.get<launcher_wire::Header>();
    if (header.kind != static_cast<std::uint32_t>(launcher_wire::Request::Ended))
      return failure(Errc::Protocol, "launcher: an answer that nobody asked for");
    ended_.push_back(launcher_wire::read_ended(reader));
    TRY(reader.finish());
  }
  launcher_wire::EndedNote note = std::move(ended_.front());
  ended_.pop_front();
  return note;
}

Result<Status> LauncherClient::destroy(const std::string& id) {
  const sys::Message answer = TRY(ask_about(launcher_wire::Request::Destroy, id));
  launcher_wire::Reader reader(answer.bytes);
  Status status = launcher_wire::read_status(reader);
  TRY(reader.finish());
  return status;
}

Result<Status> LauncherClient::status(const std::string& id) {
  const sys::Message answer = TRY(ask_about(launcher_wire::Request::Status, id));
  launcher_wire::Reader reader(answer.bytes);
  Status status = launcher_wire::read_status(reader);
  TRY(reader.finish());
  return status;
}

Result<void> LauncherClient::freeze(const std::string& id) {
  TRY(ask_about(launcher_wire::Request::Freeze, id));
  return {};
}

Result<void> LauncherClient::thaw(const std::string& id) {
  TRY(ask_about(launcher_wire::Request::Thaw, id));
  return {};
}

Result<void> LauncherClient::set_limits(const std::string& id, const Limits& limits) {
  auto writer = begin(launcher_wire::Request::SetLimits);
  writer.put_string(id);
  launcher_wire::write(writer, limits);
  TRY(ask(launcher_wire::Request::SetLimits, writer.take(), {}));
  return {};
}

Result<std::vector<std::string>> LauncherClient::list() {
  const sys::Message answer =
      TRY(ask(launcher_wire::Request::List, begin(launcher_wire::Request::List).take(), {}));
  launcher_wire::Reader reader(answer.bytes);
  (void)reader.get<std::uint32_t>();  // how many there are in all
  const std::uint32_t listed = reader.get_count(kSandboxesMax);
  std::vector<std::string> ids;
  ids.reserve(listed);
  for (std::uint32_t i = 0; i < listed; ++i) ids.push_back(reader.get_string());
  TRY(reader.finish());
  return ids;
}

std::string find_caisson_program() {
  if (const char* named = std::getenv("CAISSON_PROGRAM"))
    return named;  // NOLINT(concurrency-mt-unsafe): read only
  std::array<char, 4096> self{};
  const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size());
  const std::string path(self.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::string beside = path.substr(0, path.rfind('/') + 1) + "caisson";
  return ::access(beside.c_str(), X_OK) == 0 ? beside : "caisson";
}

}  // namespace caisson::engine
