#include "cli/serve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "cli/cli.h"
#include "cli/id_ranges.h"
#include "cli/options.h"
#include "cli/serve_launcher.h"
#include "cli/serve_secrets.h"
#include "cli/serve_sockets.h"
#include "control/idle_launcher.h"
#include "control/server_program.h"
#include "engine/launcher/rendezvous.h"
#include "engine/native/own_process.h"
#include "sys/file.h"
#include "sys/raw.h"

namespace caisson::cli {
namespace {

constexpr int kFirstHanded = 3;  // where a service manager puts what it opened
constexpr std::size_t kHandedMax = 64;
constexpr std::size_t kConfigBytesMax = 1024UL * 1024;
constexpr std::size_t kPasswdBytesMax = 4UL * 1024 * 1024;

std::optional<std::string> variable(std::span<const std::string> environment,
                                    std::string_view name) {
  for (const std::string& one : environment) {
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=')
      return one.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

// ----------------------------------------------------------------------------------------------
// what was said

Result<ServeOptions> resolve(const ServeFlags& flags, std::string_view config_text,
                             std::span<const std::string> environment) {
  ServeOptions options;
  options.flags = flags;
  options.settings = TRY(policy::parse_settings(config_text, flags.config.value_or("")));
  if (const auto named = variable(environment, "CAISSON_STATE_DIR"))
    options.settings.server.state_dir = *named;
  TRY(policy::apply_environment(options.settings, environment));
  TRY(policy::apply_flags(options.settings, flags.settings));
  TRY(policy::check_settings(options.settings));
  const std::string& state_dir = options.settings.server.state_dir;
  if (!state_dir.starts_with('/'))
    return bad_field("state_dir", "--state-dir: want an absolute path, got '" + state_dir + "'");
  return options;
}

Result<ServerIdentity> server_identity(const std::string& user, std::string_view passwd) {
  for (const std::string_view line : split(passwd, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 4 || fields[0] != user) continue;
    const auto uid = number(fields[2]);
    const auto gid = number(fields[3]);
    if (!uid || !gid || *uid <= 0 || *gid <= 0)
      return bad_field("server.user", "server.user: '" + user +
                                          "' is root or has no id; the server needs one without "
                                          "privileges");
    return ServerIdentity{static_cast<uid_t>(*uid), static_cast<gid_t>(*gid)};
  }
  if (user != policy::ServerSettings{}.user)
    return bad_field("server.user", "server.user: this host has no user '" + user + "'");
  return ServerIdentity{kNobodysId, kNobodysId};
}

Result<std::vector<int>> handed_descriptors(std::span<const std::string> environment, pid_t self) {
  const auto pid = variable(environment, "LISTEN_PID");
  const auto count = variable(environment, "LISTEN_FDS");
  if (!pid || !count || number(*pid) != std::int64_t{self}) return std::vector<int>{};
  const auto handed = number(*count);
  if (!handed || *handed < 0 || *handed > static_cast<std::int64_t>(kHandedMax))
    return bad_field("LISTEN_FDS", "LISTEN_FDS: want 0 to 64, got '" + *count + "'");
  std::vector<int> numbers;
  numbers.reserve(static_cast<std::size_t>(*handed));
  for (int i = 0; i < *handed; ++i) numbers.push_back(kFirstHanded + i);
  return numbers;
}

std::vector<std::string> server_arguments(const ServeOptions& options, const HandOver& hand_over) {
  const ServeFlags& flags = options.flags;
  std::vector<std::string> words{"caissond", "--state-dir", options.settings.server.state_dir};
  const auto add = [&](const char* flag, const std::string& value) {
    words.emplace_back(flag);
    words.push_back(value);
  };
  add("--launcher-socket", hand_over.launcher_socket);
  add("--lock-fd", std::to_string(hand_over.lock));
  for (const int fd : hand_over.listeners) add("--listen-fd", std::to_string(fd));
  if (flags.config) add("--config", *flags.config);
  for (const int fd : hand_over.grpc) add("--grpc-listen-fd", std::to_string(fd));
  if (flags.settings.vhost) add("--vhost", *flags.settings.vhost);
  if (flags.drain_seconds) add("--drain", fmt::format("{}", *flags.drain_seconds));
  if (flags.settings.log_level) add("--log-level", *flags.settings.log_level);
  if (flags.settings.log_format) add("--log-format", *flags.settings.log_format);
  if (flags.settings.open) words.emplace_back("--open");
  if (flags.new_admin_token) words.emplace_back("--new-admin-token");
  if (flags.settings.behind_tls_proxy) words.emplace_back("--behind-tls-proxy");
  return words;
}

namespace {

// ----------------------------------------------------------------------------------------------
// what is done, in this order

Result<void> make_state_tree(const std::string& state_dir, const ServerIdentity& server) {
  TRY_IN("state directory " + state_dir, engine::make_run_folder(state_dir));
  const std::string own = state_dir + "/server";
  TRY(sys::make_dir(AT_FDCWD, own, 0700, sys::Existing::Accept));
  const UniqueFd dir = TRY(sys::open_at(AT_FDCWD, own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (::fchown(dir.get(), server.uid, server.gid) != 0 || ::fchmod(dir.get(), 0700) != 0)
    return sys_failure("give " + own + " to the server", errno);
  return {};
}

// Held by descriptor, and so by whatever this process becomes: the kernel lets go of it when the
// last of that is dead.
Result<UniqueFd> take_lock(const std::string& state_dir) {
  const std::string path = state_dir + "/run/lock";
  UniqueFd lock = TRY(sys::open_at(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return sys_failure("lock " + path, errno);
    const auto holder = sys::read_again(lock.get(), 64);
    const std::string pid = holder ? holder->substr(0, holder->find('\n')) : "";
    return failure(Errc::Busy, "a server runs on " + state_dir + " already" +
                                   (pid.empty() ? "" : ", with the pid " + pid) +
                                   "; stop it, or take another --state-dir");
  }
  const std::string text = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), text.data(), text.size(), 0) < 0)
    return sys_failure("write " + path, errno);
  return lock;
}

// What was handed to us, unless addresses were typed; else what the settings say.
Result<std::vector<UniqueFd>> open_sockets(ServeOptions& options, std::vector<UniqueFd> handed,
                                           const ServerIdentity& server) {
  std::vector<UniqueFd> sockets;
  if (!handed.empty() && options.flags.settings.listen.empty()) {
    options.settings.server.listen.clear();
    for (const UniqueFd& fd : handed)
      options.settings.server.listen.push_back(TRY(address_of(fd.get())));
    TRY(policy::check_settings(options.settings));
    return handed;
  }
  sockets.reserve(options.settings.server.listen.size());
  for (const policy::ListenAddress& address : options.settings.server.listen)
    sockets.push_back(TRY(listen_on(address, server)));
  return sockets;
}

void set_limits() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  // Its memory holds tenants' bytes and tokens.
  const rlimit no_core{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &no_core);
  // Secrets are held in memory that is never swapped out. Where we may not raise the limit, the
  // server says whether it is enough.
  constexpr rlim_t kLockedBytes = rlim_t{16} << 20U;
  rlimit locked{};
  if (::getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur < kLockedBytes) {
    locked.rlim_cur = kLockedBytes;
    locked.rlim_max = std::max(locked.rlim_max, kLockedBytes);
    (void)::setrlimit(RLIMIT_MEMLOCK, &locked);
  }
  (void)::umask(077);
}

// Returns only when it failed.
Error become_server(const std::string& program, int image, std::vector<std::string> words,
                    std::span<const std::string> environment, std::span<const int> kept) {
  std::vector<std::string> passed;
  for (const std::string& one : environment) {
    if (!one.starts_with("LISTEN_")) passed.push_back(one);
  }
  std::vector<char*> argv;
  std::vector<char*> envp;
  argv.reserve(words.size() + 1);
  envp.reserve(passed.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& one : passed) envp.push_back(one.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  constexpr unsigned kCloseOnExec = 4;  // CLOSE_RANGE_CLOEXEC
  (void)sys::raw::close_range(kFirstHanded, ~0U, kCloseOnExec);
  for (const int fd : kept) (void)::fcntl(fd, F_SETFD, 0);
  // By descriptor: the folder it lies in may be closed to the server's user.
  (void)sys::raw::execveat(image, argv.data(), envp.data());
  // A script is opened again by its interpreter, and can only be found by its name.
  if (errno == ENOENT) ::execve(program.c_str(), argv.data(), envp.data());
  return sys_failure("start " + program + " as the server's user", errno).error();
}

// With the launcher there: the last steps before this process is the server. Returns only when one
// of them failed.
Result<void> hand_over(const ServeOptions& options, const ServerIdentity& server,
                       const std::string& program, int image, const HandOver& things,
                       std::span<const std::string> environment) {
  TRY(ensure_launcher(options.settings.server.state_dir, server,
                      {options.flags.orphan_grace_seconds, options.flags.store_bytes}));
  std::vector<int> kept = things.listeners;
  kept.insert(kept.end(), things.grpc.begin(), things.grpc.end());
  kept.push_back(things.lock);
  set_limits();
  TRY_IN("drop privileges", engine::native::become_unprivileged(server.uid, server.gid));
  return std::unexpected(
      become_server(program, image, server_arguments(options, things), environment, kept));
}

Result<void> serve(ServeOptions options, std::vector<UniqueFd> handed,
                   std::span<const std::string> environment) {
  if (::geteuid() != 0) {
    return failure(Errc::Unsupported,
                   "the server starts as root, makes its launcher, and drops every privilege; "
                   "there is no server for ordinary users yet");
  }
  const std::string state_dir = options.settings.server.state_dir;
  const std::string program = TRY(control::find_server());
  const UniqueFd image = TRY(sys::open_at(AT_FDCWD, program, O_PATH));
  const std::string passwd = TRY(sys::read_small(AT_FDCWD, "/etc/passwd", kPasswdBytesMax));
  const ServerIdentity server = TRY(server_identity(options.settings.server.user, passwd));
  TRY(check_host_sub_ids(server));
  TRY(make_state_tree(state_dir, server));
  const UniqueFd lock = TRY(take_lock(state_dir));
  // The addresses first: when one of them is taken, no launcher is started at all.
  const auto sockets = TRY(open_sockets(options, std::move(handed), server));
  UniqueFd grpc;
  if (const auto address = policy::grpc_address(options.settings))
    grpc = TRY_IN("gRPC (--grpc-listen ADDRESS, or off)", listen_on(*address, server));
  HandOver things;
  if (grpc) things.grpc.push_back(grpc.get());
  things.lock = lock.get();
  things.launcher_socket = engine::launcher_socket(state_dir);
  for (const UniqueFd& socket : sockets) things.listeners.push_back(socket.get());
  auto failed = hand_over(options, server, program, image.get(), things, environment);
  control::end_idle_launcher(things.launcher_socket);
  return failed;
}

void add_options(CLI::App& app, ServeFlags& flags) {
  app.add_option("--listen", flags.settings.listen,
                 "where to listen: ADDR:PORT or unix:PATH; may be repeated (127.0.0.1:8080)")
      ->type_name("ADDRESS")
      ->take_all();
  app.add_option("--vhost", flags.settings.vhost,
                 "sandboxes are web sites below this name: NAME, or http://localhost:8080")
      ->type_name("NAME");
  app.add_option("--grpc-listen", flags.settings.grpc_listen,
                 "where to listen for gRPC and gRPC-Web, or 'off' (127.0.0.1:50051, beside the "
                 "usual --listen)")
      ->type_name("ADDRESS");
  app.add_option("--state-dir", flags.settings.state_dir, "where everything is kept")
      ->type_name("PATH");
  app.add_option("--config", flags.config, "the server's settings")->type_name("FILE");
  app.add_flag("--open", flags.settings.open, "nobody needs a token; on this machine only");
  app.add_flag("--new-admin-token", flags.new_admin_token,
               "make one more administrator's token and print it");
  app.add_flag("--behind-tls-proxy", flags.settings.behind_tls_proxy,
               "a reverse proxy in front speaks TLS: listening on other addresses is meant");
  app.add_option("--log-level", flags.settings.log_level, "trace, debug, info, warning or error");
  app.add_option("--log-format", flags.settings.log_format, "text or json");
  app.add_option("--drain", flags.drain_seconds, "wait so long for running calls at the end")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--store-bytes", flags.store_bytes,
                 "size of the store of layers, when it is made; a quarter of what is free, and 32 "
                 "GiB at most, when not given")
      ->type_name("BYTES");
  app.add_option("--orphan-grace", flags.orphan_grace_seconds,
                 "end sandboxes without a time to live after so long without a server")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace

int serve_command(std::span<char*> args) {
  CLI::App app("Serves sandboxes over HTTP. Starts as root and drops every privilege.");
  ServeFlags flags;
  add_options(app, flags);
  if (const auto done = parse(app, args)) return *done;
  std::vector<std::string> environment;
  for (char** at = environ; *at != nullptr; ++at) environment.emplace_back(*at);
  for (std::string& one : handed_secrets(kSecretsFolder, environment))
    environment.push_back(std::move(one));
  const auto begin = [&]() -> Result<void> {
    std::vector<UniqueFd> handed;
    for (const int fd : TRY(handed_descriptors(environment, ::getpid()))) handed.emplace_back(fd);
    // What a stranger left open is not for the server.
    (void)sys::raw::close_range(kFirstHanded + static_cast<unsigned>(handed.size()), ~0U, 0);
    std::string text;
    if (flags.config) text = TRY(sys::read_small(AT_FDCWD, *flags.config, kConfigBytesMax));
    ServeOptions options = TRY(resolve(flags, text, environment));
    return serve(std::move(options), std::move(handed), environment);
  };
  const auto served = begin();
  complain(args[0], served.error().message);
  return served.error().code == Errc::InvalidArgument ? kExitUsage : kExitFailed;
}

}  // namespace caisson::cli
