#include "engine/launcher/client.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "sys/file.h"
#include "sys/raw.h"
#include "sys/socket.h"

namespace caisson::engine {
namespace {

constexpr int kLauncherSocket = 3;
constexpr seconds kFarewell{10};

class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  posix_spawn_file_actions_t* get() noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

}  // namespace

Result<std::unique_ptr<LauncherClient>> LauncherClient::spawn(const std::string& program,
                                                              const std::string& state_dir) {
  sys::SocketPair pair = TRY(sys::packet_pair());
  // dup2 onto itself would leave close-on-exec set: lift our end out of the way first.
  const UniqueFd theirs = TRY(sys::duplicate(pair.theirs.get(), kLauncherSocket + 1));
  SpawnActions actions;
  ::posix_spawn_file_actions_adddup2(actions.get(), theirs.get(), kLauncherSocket);
  std::string arguments[] = {program, "launcher", "--private", "--state-dir", state_dir};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), arguments[4].data(), nullptr};
  pid_t pid = -1;
  const int reason = ::posix_spawnp(&pid, program.c_str(), actions.get(), nullptr, argv, environ);
  if (reason != 0) return sys_failure("start '" + program + " launcher'", reason);
  UniqueFd pidfd(sys::raw::pidfd_open(pid));
  if (!pidfd) return sys_failure("watch the launcher", errno);
  std::unique_ptr<LauncherClient> client(
      new LauncherClient(sys::Child::adopt(pid, std::move(pidfd)), std::move(pair.ours)));
  pair.theirs.reset();
  const auto greeting = client->ask(launcher_wire::Request::Hello,
                                    client->begin(launcher_wire::Request::Hello).take(), {});
  if (!greeting)
    return std::unexpected(greeting.error().within("'" + program + " launcher' does not answer"));
  return client;
}

LauncherClient::~LauncherClient() {
  socket_.reset();
  if (process_.alive()) (void)sys::wait_ready(process_.pidfd(), POLLIN, Clock::now() + kFarewell);
}

launcher_wire::Writer LauncherClient::begin(launcher_wire::Request kind) {
  launcher_wire::Header header;
  header.kind = static_cast<std::uint32_t>(kind);
  return launcher_wire::Writer(header);
}

Result<sys::Message> LauncherClient::ask(launcher_wire::Request kind, launcher_wire::Bytes message,
                                         std::span<const int> fds) {
  if (message.size() > launcher_wire::kMessageBytesMax)
    return failure(Errc::Exhausted, "launcher: the request is longer than 64 KiB");
  const std::scoped_lock lock(mutex_);
  const std::uint32_t sequence = ++sequence_;
  std::memcpy(message.data() + offsetof(launcher_wire::Header, sequence), &sequence,
              sizeof(sequence));
  const auto sent = sys::send_message(socket_.get(), message, fds);
  if (!sent) return failure(Errc::Gone, "the launcher is gone: " + sent.error().message);
  sys::Message reply = TRY(sys::receive_message(socket_.get(), launcher_wire::kMessageBytesMax));
  if (reply.bytes.empty()) return failure(Errc::Gone, "the launcher is gone");
  launcher_wire::Reader reader(reply.bytes);
  const auto header = reader.get<launcher_wire::Header>();
  if (header.sequence != sequence || header.kind != static_cast<std::uint32_t>(kind)) {
    return failure(Errc::Protocol, "launcher: the answer belongs to another question");
  }
  if (header.failed != 0) return std::unexpected(launcher_wire::read_error(reader));
  reply.bytes.erase(reply.bytes.begin(), reply.bytes.begin() + sizeof(launcher_wire::Header));
  return reply;
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
  TRY(reader.finish());
  if (answer.fds.size() != 1)
    return failure(Errc::Protocol, "launcher: no stream came with the sandbox");
  reply.stream = std::move(answer.fds.front());
  return reply;
}

Result<UniqueFd> LauncherClient::connect(const std::string& id) {
  sys::Message answer = TRY(ask_about(launcher_wire::Request::Connect, id));
  if (answer.fds.size() != 1) return failure(Errc::Protocol, "launcher: no stream came");
  return std::move(answer.fds.front());
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
