#include "cli/mcp_private_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/native/own_process.h"
#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kFirstLineBytesMax = 4096;
// Everything of ours that a caller may have set is for the server that he runs himself; but a
// sandbox is this client's alone, whichever revision of the protocol it speaks.
constexpr const char* kOneSandbox = "CAISSON_MCP_ONE_SANDBOX_PER_TOKEN=true";

struct Folder {
  std::string path;
  [[nodiscard]] std::string socket() const { return path + "/api.sock"; }
  [[nodiscard]] std::string state() const { return path + "/state"; }
};

Result<Folder> make_folder() {
  std::error_code none;
  std::string path = (std::filesystem::temp_directory_path(none) / "caisson-mcp-XXXXXX").string();
  if (none) path = "/tmp/caisson-mcp-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return sys_failure("make " + path, errno);
  // The server has no privileges and must be able to pass.
  if (::chmod(path.c_str(), 0711) != 0) return sys_failure("chmod " + path, errno);
  return Folder{path};
}

// As execve() wants them; the texts outlive it.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

struct Command {
  std::vector<std::string> words;
  std::vector<std::string> environment;
};

Command command_of(const Folder& folder, const std::optional<std::string>& config) {
  Command out;
  out.words = {
      "caisson",     "serve",        "--open",        "--listen", "unix:" + folder.socket(),
      "--state-dir", folder.state(), "--grpc-listen", "off",      "--log-level",
      "warning"};
  if (config) {
    out.words.emplace_back("--config");
    out.words.push_back(*config);
  }
  for (char** at = environ; *at != nullptr; ++at) {
    if (!std::string_view(*at).starts_with("CAISSON_")) out.environment.emplace_back(*at);
  }
  out.environment.emplace_back(kOneSandbox);
  return out;
}

void default_signals() {
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE})
    (void)std::signal(number, SIG_DFL);
}

[[noreturn]] void become_server(Command& command, int ready) {
  default_signals();
  (void)::dup2(ready, STDOUT_FILENO);
  const std::vector<char*> argv = pointers(command.words);
  const std::vector<char*> envp = pointers(command.environment);
  ::execve("/proc/self/exe", argv.data(), envp.data());
  ::_exit(127);
}

// Waits for the end of the pipe, or of the server.
void stand_by(int alive, pid_t server) {
  const UniqueFd ended(sys::raw::pidfd_open(server));
  std::array<pollfd, 2> places{{{alive, POLLIN, 0}, {ended.get(), POLLIN, 0}}};
  while (::poll(places.data(), places.size(), -1) < 0 && errno == EINTR) {
  }
  if (ended) (void)sys::raw::pidfd_send_signal(ended.get(), SIGTERM);
}

// In a process of its own, in a session of its own: what ends the client's group does not end it.
[[noreturn]] void guard(Command& command, const Folder& folder, int alive, int ready) {
  (void)::setsid();
  // The client's pipes: it must see their end when the command ends, not when we do.
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  (void)::dup2(nothing.get(), STDIN_FILENO);
  (void)::dup2(nothing.get(), STDOUT_FILENO);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) (void)std::signal(number, SIG_IGN);
  // The launcher outlives the server by a moment: it becomes our child, so that we see its end.
  (void)engine::native::adopt_orphans();
  const pid_t server = ::fork();
  if (server == 0) become_server(command, ready);
  (void)::close(ready);
  if (server > 0) stand_by(alive, server);
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder.path, ignored);
  ::_exit(0);
}

Result<void> wait_until_ready(int ready) {
  std::string line;
  std::array<char, 512> bytes{};
  while (line.find('\n') == std::string::npos && line.size() < kFirstLineBytesMax) {
    const ssize_t got = ::read(ready, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return failure(Errc::Unsupported,
                     "no server could be started here (its reason stands above); run caisson "
                     "doctor, or name a server by --url");
    line.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace

Result<PrivateServer> PrivateServer::start(const std::optional<std::string>& config) {
  if (::geteuid() != 0)
    return failure(Errc::Unsupported,
                   "without a server, caisson mcp starts one of its own, and that takes root; name "
                   "a server by --url or CAISSON_URL, or start it by sudo");
  const Folder folder = TRY(make_folder());
  sys::Pipe alive = TRY(sys::make_pipe());
  sys::Pipe ready = TRY(sys::make_pipe());
  Command command = command_of(folder, config);
  const pid_t guardian = ::fork();
  if (guardian < 0) return sys_failure("fork", errno);
  if (guardian == 0) {
    alive.write = UniqueFd();  // ours alone: its last end must be the caller's
    ready.read = UniqueFd();
    guard(command, folder, alive.read.get(), ready.write.get());
  }
  ready.write = UniqueFd();
  PrivateServer server("unix:" + folder.socket(), std::move(alive.write), guardian);
  TRY(wait_until_ready(ready.read.get()));
  return server;
}

PrivateServer::~PrivateServer() {
  if (!alive_) return;  // moved from
  alive_ = UniqueFd();
  while (::waitpid(guardian_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace caisson::cli
