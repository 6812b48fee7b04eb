#include "main/server_life.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "control/access.h"
#include "control/await_store.h"
#include "control/open_fleet.h"
#include "doors/rest/rest.h"
#include "http/server.h"
#include "http/tls_front.h"
#include "main/doors.h"
#include "main/server_log.h"
#include "sys/file.h"

namespace caisson::server {
namespace {

namespace asio = boost::asio;
using policy::LogLevel;

constexpr seconds kLastAnswers{10};  // for calls that are answered when their sandbox ends
constexpr seconds kLastHurried{1};   // the same, when nobody wants to wait: they are on their way
constexpr seconds kLastTurns{5};     // for calls to notice that their connection was cut
constexpr milliseconds kDrainLook{20};  // between looks at what still runs

// Tells a service manager, where there is one, what we are doing.
void notify(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");  // NOLINT(concurrency-mt-unsafe): read only
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  const std::size_t size = std::strlen(path);
  if (size >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size));
}

// The objects of a server outlive what waits in its loop, and the loop outlives its objects, whose
// timers and sockets are its own. So the waiting calls go first, by a step of their own.
class Loop : public asio::io_context {
 public:
  Loop() : asio::io_context(1) {}
  // Destroys every handler that is left, and with it the coroutines that wait. No more runs.
  void drop_waiting() { shutdown(); }
};

class ServerLife {
 public:
  ServerLife(const ServerFlags& flags, policy::Settings settings)
      : flags_(flags), settings_(std::move(settings)), log_(settings_.logging) {}
  ~ServerLife() { io_.drop_waiting(); }
  ServerLife(const ServerLife&) = delete;
  ServerLife& operator=(const ServerLife&) = delete;

  Result<void> run() {
    for (const int socket : flags_.listeners) bound_.push_back(TRY(bound_address(socket)));
    store_ = TRY_IN("the record", store::Store::open(store_options(settings_)));
    access_ = TRY_IN("tokens", control::Access::make(*store_, settings_.auth.open));
    std::optional<Error> failed;
    auto opened = [this, &failed]() -> asio::awaitable<void> {
      const auto outcome = co_await open();
      if (!outcome) {
        failed = outcome.error();
        io_.stop();
      }
    };
    asio::co_spawn(io_, std::move(opened), asio::detached);
    io_.run();
    if (failed) return std::unexpected(*failed);
    return {};
  }

 private:
  asio::awaitable<Result<void>> open() {
    if (auto kept = open_vault(); !kept) co_return kept;
    auto wanted = wanted_options(settings_);
    if (!wanted) co_return std::unexpected(wanted.error());
    auto fleet = co_await control::open_fleet(io_.get_executor(), *std::move(wanted),
                                              flags_.launcher_socket, *store_);
    if (!fleet) co_return std::unexpected(fleet.error());
    fleet_ = std::move(*fleet);
    if (auto opened = open_host_port(); !opened) co_return opened;
    if (auto made = co_await first_token(); !made) co_return made;
    auto doors = Doors::make({io_.get_executor(), settings_, *fleet_, *access_, *store_, log_,
                              host_rules(settings_, bound_),
                              [this] { return http_metrics() + (grpc_ ? grpc_->metrics() : ""); }});
    if (!doors) co_return std::unexpected(doors.error());
    doors_ = std::move(*doors);
    if (auto opened = co_await doors_->open(); !opened) co_return opened;
    asio::co_spawn(io_, doors_->sweep(), asio::detached);
    http_ =
        http::Server::make(io_.get_executor(), doors_->front(), http::Limits{}, rest::error_body);
    for (const int socket : flags_.listeners) {
      if (auto listening = http_->listen(UniqueFd(socket)); !listening) co_return listening;
    }
    if (auto opened = co_await open_grpc(); !opened) co_return opened;
    watch_signals();
    say_ready();
    co_return Result<void>();
  }

  // A server of its own: another handler, other limits, HTTP/2 beside HTTP/1.1.
  asio::awaitable<Result<void>> open_grpc() {
    if (flags_.grpc_listeners.empty()) co_return Result<void>();
    grpc::GrpcOptions options = grpc_options(settings_);
    options.on_request = [this](const grpc::RequestLine& line) {
      log_.request({.request_id = line.request_id,
                    .method = "POST",
                    .path = line.path,
                    .route = line.code,
                    .status = line.status,
                    .took = line.took,
                    .peer = line.peer,
                    .actor = line.actor,
                    .tenant = line.tenant});
    };
    options.on_failure = [this](std::string_view request_id, const Error& error) {
      log_.failed(request_id, error);
    };
    grpc_ = std::make_unique<grpc::Door>(*fleet_, *access_, std::move(options));
    co_await grpc_->remove_left_over();
    std::shared_ptr<http::TlsFront> tls;
    const policy::AgentboxSettings& said = settings_.agentbox;
    if (!said.tls_key_file.empty()) {
      auto made = http::TlsFront::make(said.tls_certificate_file, said.tls_key_file);
      if (!made) co_return std::unexpected(made.error().within("agentbox.tls_certificate_file"));
      tls = *std::move(made);
    }
    http::Limits limits;
    limits.http2 = true;
    grpc_http_ = http::Server::make(io_.get_executor(), *grpc_, limits, grpc::error_body);
    for (const int socket : flags_.grpc_listeners) {
      auto address = bound_address(socket);
      if (!address) co_return std::unexpected(address.error());
      grpc_url_ = url_of(*address, tls != nullptr);
      if (auto listening = grpc_http_->listen(UniqueFd(socket), tls); !listening)
        co_return listening;
    }
    asio::co_spawn(io_, sweep_grpc(seconds(said.sweep_seconds)), asio::detached);
    co_return Result<void>();
  }

  asio::awaitable<void> sweep_grpc(seconds interval) {
    boost::system::error_code cancelled;
    while (!cancelled && !ending_) {
      grpc_sweeper_.expires_after(interval);
      co_await grpc_sweeper_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
      if (!cancelled) co_await grpc_->sweep();
    }
  }

  // A host that lets us lock no memory has no secrets, and whatever names one is refused; the rest
  // of the server needs none, unless the settings say otherwise.
  Result<void> open_vault() {
    auto vault = control::Vault::open(TRY(vault_paths(settings_)));
    const policy::EgressSettings& egress = settings_.egress;
    const bool needed = egress.openai.enabled() || egress.anthropic.enabled() ||
                        egress.host_port.has_value() || !settings_.agentbox.proxy_host.empty();
    if (!vault && (needed || vault.error().code != Errc::Unsupported))
      return std::unexpected(vault.error().within("secrets"));
    if (vault) {
      vault_ = *std::move(vault);
    } else {
      log_.say(LogLevel::Warning, "no secrets are kept: " + vault.error().message);
    }
    return {};
  }

  // An administrator's, when there is none at all or when one was asked for. Shown once.
  asio::awaitable<Result<void>> first_token() {
    if (settings_.auth.open || (!access_->empty() && !flags_.new_admin_token))
      co_return Result<void>();
    control::Caller self;
    self.tenant = "default";
    self.actor = "server";
    self.scopes = static_cast<std::uint8_t>(store::Scope::Admin);
    control::TokenWish wish;
    wish.label = "admin";
    wish.scopes = self.scopes;
    auto made = co_await access_->create(self, std::move(wish));
    if (!made) co_return std::unexpected(made.error());
    fmt::print(stderr, "token (an administrator's; shown once, only its hash is kept):\n\n  {}\n\n",
               made->secret);
    fmt::print(stderr,
               "try:\n\n  curl -s -X POST {}/api/v1/sandboxes -H 'Authorization: Bearer {}' \\\n"
               "    -H 'Content-Type: application/json' -d '{{}}'\n\n",
               curl_target(bound_.front()), made->secret);
    if (bound_.front().family != policy::ListenAddress::Family::Unix)
      fmt::print(stderr, "or open {}/ in a browser, and log in with the token\n\n",
                 url_of(bound_.front()));
    co_return Result<void>();
  }

  std::string http_metrics() const {
    const http::ServerCounters now = http_->counters();
    return fmt::format(
        "# TYPE caisson_http_connections_total counter\ncaisson_http_connections_total {}\n"
        "# TYPE caisson_http_connections_open gauge\ncaisson_http_connections_open {}\n"
        "# TYPE caisson_http_refused_total counter\ncaisson_http_refused_total {}\n"
        "# TYPE caisson_http_malformed_total counter\ncaisson_http_malformed_total {}\n",
        now.connections, now.open, now.refused, now.malformed);
  }

  void say_ready() {
    std::string line = "listening on";
    for (const policy::ListenAddress& address : bound_) line += " " + url_of(address);
    fmt::print("{}\n", line);
    if (!grpc_url_.empty()) fmt::print("gRPC on {}\n", grpc_url_);
    if (!settings_.server.vhost.name.empty())
      fmt::print("previews below {}\n", policy::to_string(settings_.server.vhost));
    std::fflush(stdout);
    log_.say(LogLevel::Info, line);
    if (!grpc_url_.empty()) log_.say(LogLevel::Info, "gRPC on " + grpc_url_);
    notify("READY=1\nSTATUS=" + line);
  }

  Result<void> open_host_port() {
    if (!settings_.egress.host_port) return {};
    policy::ListenAddress at = *settings_.egress.host_port;
    at.port = TRY_IN("egress.host_port", fleet_->serve_host_port(at.host, at.port));
    log_.say(LogLevel::Info, "a proxy for holders of a sandbox's token at " + url_of(at));
    return {};
  }

  Result<control::FleetOptions> wanted_options(const policy::Settings& settings) const {
    control::FleetOptions options = fleet_options(settings);
    options.vault = vault_;
    TRY_IN("images", add_images(settings, options));
    TRY(add_models(settings.egress, options));
    return options;
  }

  // Images are kept beside the record; the launcher keeps what they unpack to.
  static Result<void> add_images(const policy::Settings& settings, control::FleetOptions& options) {
    const std::string own = settings.server.state_dir + "/server";
    const policy::ImageSettings& said = settings.images;
    options.state_key = own + "/state.key";
    options.images.folder = own + "/images";
    options.images.layer_bytes_max = static_cast<std::uint64_t>(said.layer_bytes_max);
    options.images.pull_on_create = said.pull_on_create;
    options.images.allow_private = said.allow_private;
    options.images.registry.insecure = said.insecure;
    std::error_code ignored;  // a folder of authorities is for sandboxes only
    if (std::filesystem::is_regular_file(settings.egress.trust_store, ignored))
      options.images.registry.extra_ca_file = settings.egress.trust_store;
    for (const auto& [registry, urls] : said.mirrors)
      options.images.registry.mirrors[registry].urls = urls;
    if (said.credentials_file.empty()) return {};
    const auto text = TRY(sys::read_small(AT_FDCWD, said.credentials_file));
    options.images.credentials = TRY_IN(said.credentials_file, image::Credentials::parse(text));
    return {};
  }

  void watch_signals() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      if (number == SIGHUP) {
        reload();
      } else {
        end();
      }
      watch_signals();
    });
  }

  void reload() {
    notify("RELOADING=1");
    const auto again = load_settings(flags_);
    Result<void> taken;
    if (again) {
      auto wanted = wanted_options(*again);
      taken = wanted ? fleet_->reload(*std::move(wanted)) : std::unexpected(wanted.error());
    } else {
      taken = std::unexpected(again.error());
    }
    if (!taken) {
      log_.say(LogLevel::Error, "settings stay as they are: " + taken.error().message);
    } else {
      const auto difference = policy::reloadable_difference(settings_, *again);
      for (const std::string& name : difference.need_restart)
        log_.say(LogLevel::Warning, name + " has changed: it counts after a restart");
      log_.apply(again->logging);
      settings_.sandbox = again->sandbox;
      settings_.profiles = again->profiles;
      settings_.logging = again->logging;
      settings_.images.pull_on_create = again->images.pull_on_create;
      settings_.images.layer_bytes_max = again->images.layer_bytes_max;
      settings_.audit.tenant_mb_per_minute = again->audit.tenant_mb_per_minute;
      log_.say(LogLevel::Info,
               fmt::format("settings read again, {} changed", difference.reloaded.size()));
    }
    notify("READY=1");
  }

  void end() {
    if (std::exchange(ending_, true)) {
      patience_ = Clock::now();  // asked twice: no more waiting
      hurried_ = true;
      return;
    }
    notify("STOPPING=1");
    doors_->close();
    http_->stop([this] { answered_ = true; });
    if (grpc_http_) {
      grpc_->close();
      grpc_sweeper_.cancel();
      grpc_answered_ = false;
      grpc_http_->stop([this] { grpc_answered_ = true; });
    }
    log_.say(LogLevel::Info, "stopping");
    patience_ = Clock::now() +
                duration_cast<milliseconds>(std::chrono::duration<double>(flags_.drain_seconds));
    asio::co_spawn(io_, wind_down(), asio::detached);
  }

  [[nodiscard]] bool all_answered() const noexcept { return answered_ && grpc_answered_; }

  asio::awaitable<void> wind_down() {
    asio::steady_timer timer(io_);
    boost::system::error_code ignored;
    while (fleet_->busy_calls() > 0 && Clock::now() < patience_) {
      timer.expires_after(kDrainLook);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_await fleet_->stop("the server was stopped");
    const TimePoint hurried = Clock::now() + kLastHurried;
    TimePoint latest = Clock::now() + kLastAnswers;
    while (!all_answered() && Clock::now() < (hurried_ ? hurried : latest)) {
      timer.expires_after(kDrainLook);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    // Who does not read his answer by now is cut; his call ends at its next turn.
    http_->stop(nullptr);
    if (grpc_http_) grpc_http_->stop(nullptr);
    latest = Clock::now() + kLastTurns;
    while (!all_answered() && Clock::now() < latest) {
      timer.expires_after(kDrainLook);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    log_.say(LogLevel::Info, "stopped");
    (void)signals_.cancel(ignored);
    io_.stop();
  }

  const ServerFlags& flags_;
  policy::Settings settings_;
  ServerLog log_;
  std::vector<policy::ListenAddress> bound_;
  // Built downward, destroyed upward: whoever waits for the store or the fleet goes before them.
  Loop io_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<control::Access> access_;
  std::shared_ptr<control::Vault> vault_;
  std::unique_ptr<control::RunningFleet> fleet_;
  std::unique_ptr<Doors> doors_;
  std::unique_ptr<grpc::Door> grpc_;
  std::unique_ptr<http::Server> http_;
  std::unique_ptr<http::Server> grpc_http_;
  asio::signal_set signals_{io_, SIGTERM, SIGINT, SIGHUP};
  asio::steady_timer grpc_sweeper_{io_};
  std::string grpc_url_;
  bool ending_ = false;
  bool hurried_ = false;
  bool answered_ = false;      // no connection is left
  bool grpc_answered_ = true;  // where there is such a port
  TimePoint patience_{};
};

}  // namespace

Result<void> serve(const ServerFlags& flags) {
  policy::Settings settings = TRY(load_settings(flags));
  return ServerLife(flags, std::move(settings)).run();
}

}  // namespace caisson::server
