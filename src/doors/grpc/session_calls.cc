// CreateSession, DestroySession, GetSession, ListSessions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/id.h"
#include "control/open_fleet.h"
#include "control/tools.h"
#include "doors/grpc/methods.h"
#include "doors/grpc/pip.h"
#include "egress/credentials/jwt.h"
#include "store/digest.h"

namespace caisson::grpc {
namespace {

constexpr std::size_t kHostsMax = 256;  // of one session
constexpr std::size_t kHostBytesMax = 1024;
// Of all of them: each list of sessions shows them again.
constexpr std::size_t kHostsBytesMax = 16UL * 1024;
constexpr std::size_t kTenantDigits = 16;
constexpr std::size_t kContainerDigits = 12;
constexpr double kMicros = 1e6;

double seconds_now(const GrpcOptions& options) {
  return static_cast<double>(options.wall()) / kMicros;
}

// Random ones, as many as a SHA-256 has at most.
Result<std::string> hex_digits(std::size_t count) {
  const SandboxId random = TRY(SandboxId::random());
  return store::to_hex(store::sha256(random.str())).substr(0, count);
}

// Version 4: random but for six bits.
Result<std::string> new_uuid() {
  std::string hex = TRY(hex_digits(32));
  hex[12] = '4';
  hex[16] = "89ab"[(hex[16] >= 'a' ? hex[16] - 'a' + 10 : hex[16] - '0') & 3];
  for (const std::size_t at : {8U, 13U, 18U, 23U}) hex.insert(at, 1, '-');
  return hex;
}

std::string volume_name(std::string_view tenant, std::string_view which) {
  return fmt::format("agentbox.{}.{}",
                     store::to_hex(store::sha256(tenant)).substr(0, kTenantDigits), which);
}

awaitable<Result<void>> have_storage(Call& call, const std::string& tenant,
                                     control::CreateWish& wish) {
  const std::pair<std::string_view, std::string_view> both[] = {{"workspace", kWorkspace},
                                                                {"outputs", kOutputs}};
  for (const auto& [which, at] : both) {
    const std::string name = volume_name(tenant, which);
    auto made = co_await call.fleet().set_volume(call.caller, name, call.options().storage_bytes);
    if (!made) co_return std::unexpected(made.error());
    wish.volumes.push_back({name, std::string(at), false});
    std::erase(wish.folders, at);
  }
  co_return Result<void>{};
}

control::NetworkWish network_of(const Call& call, const Session& session) {
  const GrpcOptions& options = call.options();
  control::NetworkWish network;
  network.rules = egress::rules_of_hosts(session.hosts);
  for (policy::NetworkEgressRule& rule : *network.rules)
    rule.rate_limit_per_min = policy::kRateLimitPerMinMax;  // nobody asked for a limit
  if (may_use_pip(session.hosts)) network.operators = index_rules(options);
  network.mode = network.rules->empty() && network.operators.empty() ? "none" : "allowlist";
  if (network.rules->empty()) network.rules.reset();
  network.variables = false;
  if (options.proxy_host.empty()) return network;
  network.variables = true;
  network.proxy = control::ProxyPlace{options.proxy_host, options.proxy_port};
  network.token = true;
  network.words = control::TokenWords{session.id, session.tenant, session.hosts};
  return network;
}

control::CreateWish wish_of(const Call& call, const Session& session) {
  const GrpcOptions& options = call.options();
  control::CreateWish wish;
  if (!options.image.empty()) wish.image = options.image;
  wish.root = options.read_only_root ? engine::RootMode::ReadOnly : engine::RootMode::Writable;
  wish.uid = 0;
  wish.gid = 0;
  wish.hostname = session.container;
  wish.workdir = kWorkspace;
  wish.environment = {{"HOME", "/root"},
                      {"HOSTNAME", session.container},
                      {"LC_CTYPE", "C.UTF-8"},
                      {"PATH", "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}};
  wish.folders = {std::string(kUploads), std::string(kOutputs), "/root"};
  wish.tools =
      std::vector<std::string>{std::string(control::kShellExec), std::string(control::kFileRead),
                               std::string(control::kFileWrite), std::string(control::kFileList)};
  wish.limits.cpu = options.cores;
  wish.limits.memory_bytes = options.memory_bytes;
  // The sweep of this door ends sessions, and nobody else.
  wish.limits.timeout_seconds =
      options.life_seconds > 0 ? options.life_seconds : control::kLifeSecondsMax;
  wish.limits.idle_seconds = control::kLifeSecondsMax;
  wish.network = network_of(call, session);
  wish.labels[std::string(kSessionLabel)] = session.id;
  return wish;
}

awaitable<Result<void>> make(Call& call, const SessionPtr& session) {
  auto container = hex_digits(kContainerDigits);
  if (!container) co_return std::unexpected(container.error());
  session->container = *std::move(container);
  control::CreateWish wish = wish_of(call, *session);
  if (call.options().storage && session->tenant) {
    auto ready = co_await have_storage(call, *session->tenant, wish);
    if (!ready) co_return ready;
  }
  auto made = co_await call.fleet().create(call.caller, std::move(wish));
  if (!made) co_return std::unexpected(made.error());
  session->sandbox = made->id;
  session->created = seconds_now(call.options());
  session->used = session->created;
  session->used_at = call.options().now();
  co_return Result<void>{};
}

bool is_alive(Call& call, const Session& session) {
  const auto view = call.fleet().get(call.caller, session.sandbox);
  return view && view->state != control::State::Ended && view->state != control::State::Stopped;
}

void show(Call& call, const Session& session, api::SessionInfo& out) {
  out.set_session_id(session.id);
  out.set_container_id(session.container);
  out.set_created_at(session.created);
  out.set_last_activity(session.used);
  out.set_status(is_alive(call, session) ? "running" : "exited");
  if (session.tenant) out.set_tenant_id(*session.tenant);
  for (const std::string& host : session.hosts) out.add_allowed_hosts(host);
}

void touch(const GrpcOptions& options, Session& session) {
  session.used = seconds_now(options);
  session.used_at = options.now();
}

Status check(const api::CreateSessionRequest& request) {
  constexpr std::string_view kWant =
      "want 1 to 128 letters, digits, '.', '_' and '-', and not '.' or '..'";
  if (!request.session_id().empty() && !is_session_name(request.session_id()))
    return {Code::InvalidArgument,
            fmt::format("session_id is {}: {}",
                        doors::python_repr(request.session_id().substr(0, 80)), kWant)};
  if (!request.tenant_id().empty() && !is_session_name(request.tenant_id()))
    return {Code::InvalidArgument,
            fmt::format("tenant_id is {}: {}",
                        doors::python_repr(request.tenant_id().substr(0, 80)), kWant)};
  if (static_cast<std::size_t>(request.allowed_hosts_size()) > kHostsMax)
    return {Code::InvalidArgument, fmt::format("allowed_hosts: {} are too many, want at most {}",
                                               request.allowed_hosts_size(), kHostsMax)};
  std::size_t bytes = 0;
  for (const std::string& host : request.allowed_hosts()) {
    bytes += host.size();
    if (host.size() > kHostBytesMax || host.find(',') != std::string::npos)
      return {Code::InvalidArgument,
              fmt::format("allowed_hosts: {} is no host", doors::python_repr(host.substr(0, 80)))};
  }
  if (bytes > kHostsBytesMax)
    return {Code::InvalidArgument,
            fmt::format("allowed_hosts: {} bytes are too many, want at most {}", bytes,
                        kHostsBytesMax)};
  return {};
}

// More than what show() adds to a message.
std::size_t shown_bytes(const Session& session) {
  constexpr std::size_t kOtherBytes = 128;
  std::size_t bytes = kOtherBytes + session.id.size() + session.container.size();
  if (session.tenant) bytes += session.tenant->size();
  for (const std::string& host : session.hosts) bytes += host.size() + 4;
  return bytes;
}

// Whoever leaves before it is made, by whatever way, gives the id back.
class Making {
 public:
  Making(Sessions& sessions, SessionPtr session)
      : sessions_(sessions), session_(std::move(session)) {}
  ~Making() {
    if (session_) sessions_.remove(session_);
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  void done() { sessions_.made(std::exchange(session_, nullptr)); }

 private:
  Sessions& sessions_;
  SessionPtr session_;
};

// Whoever leaves before its sandbox has gone leaves it to the next sweep.
class Ending {
 public:
  Ending(Sessions& sessions, SessionPtr session)
      : sessions_(sessions), session_(std::move(session)) {
    sessions_.ending(session_);
  }
  ~Ending() {
    if (session_) sessions_.condemn(session_);
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  void done() { sessions_.remove(std::exchange(session_, nullptr)); }

 private:
  Sessions& sessions_;
  SessionPtr session_;
};

}  // namespace

InUse::InUse(Call& call, std::string_view id)
    : options_(call.options()), session_(call.services().sessions.find(call.caller.tenant, id)) {
  if (!session_) return;
  touch(options_, *session_);
  ++session_->running;
}

InUse::~InUse() {
  if (!session_) return;
  --session_->running;
  session_->used_at = options_.now();  // a command that ran was no idleness
}

awaitable<Status> create_session(Call& call, const api::CreateSessionRequest& request,
                                 api::CreateSessionResponse& reply) {
  if (Status wrong = check(request); !wrong.ok()) co_return wrong;
  Sessions& sessions = call.services().sessions;
  std::optional<std::string> tenant;
  if (!request.tenant_id().empty()) tenant = request.tenant_id();
  std::string id = request.session_id();
  if (id.empty()) {
    auto fresh = new_uuid();
    if (!fresh) co_return status_of(fresh.error());
    id = *std::move(fresh);
  }
  const std::size_t most = call.options().max_sessions;
  if (most > 0 && sessions.count(call.caller.tenant) >= most &&
      !sessions.find(call.caller.tenant, id))
    co_return Status{Code::ResourceExhausted,
                     fmt::format("{} sessions are there; end one first", most)};
  auto claim = co_await sessions.claim(call.caller.tenant, std::move(id));
  const SessionPtr session = std::move(claim.session);
  if (!session)
    co_return Status{Code::Unavailable, "the last session of this name could not be ended yet"};
  if (!claim.mine) {
    if (session->tenant != tenant)
      co_return Status{Code::PermissionDenied, "the session is another tenant's"};
    touch(call.options(), *session);
    show(call, *session, *reply.mutable_session());
    co_return Status{};
  }
  Making making(sessions, session);
  session->tenant = std::move(tenant);
  session->hosts.assign(request.allowed_hosts().begin(), request.allowed_hosts().end());
  if (session->hosts.empty()) session->hosts = call.options().allowed_hosts;
  const auto made = co_await make(call, session);
  if (!made) {
    if (made.error().code == Errc::Internal && call.options().on_failure)
      call.options().on_failure(call.request().id, made.error());
    co_return status_of(made.error());
  }
  making.done();
  show(call, *session, *reply.mutable_session());
  co_return Status{};
}

awaitable<Result<void>> end_session(Services& services, control::Caller caller,
                                    SessionPtr session) {
  Ending ending(services.sessions, session);
  auto done = co_await services.fleet.destroy(caller, session->sandbox);
  if (done || done.error().code == Errc::NotFound) {
    ending.done();
    co_return Result<void>{};
  }
  if (services.options.on_failure) services.options.on_failure(caller.request_id, done.error());
  co_return done;
}

awaitable<Status> destroy_session(Call& call, const api::DestroySessionRequest& request,
                                  api::DestroySessionResponse& reply) {
  const SessionPtr session =
      call.services().sessions.find_to_end(call.caller.tenant, request.session_id());
  if (session) {
    const auto ended = co_await end_session(call.services(), call.caller, session);
    if (!ended) co_return status_of(ended.error());
  }
  reply.set_success(session != nullptr);
  co_return Status{};
}

awaitable<Status> get_session(Call& call, const api::GetSessionRequest& request,
                              api::GetSessionResponse& reply) {
  const InUse session(call, request.session_id());
  if (!session) co_return Status{Code::NotFound, std::string(kNoSession)};
  show(call, *session, *reply.mutable_session());
  co_return Status{};
}

awaitable<Status> list_sessions(Call& call, const api::ListSessionsRequest& /*request*/,
                                api::ListSessionsResponse& reply) {
  const auto sessions = call.services().sessions.of(call.caller.tenant);
  std::size_t bytes = 0;
  for (const SessionPtr& session : sessions) bytes += shown_bytes(*session);
  // Twice: its frame stands beside it.
  if (auto room = co_await call.hold().resize(call.hold().bytes() + 2 * bytes); !room)
    co_return status_of(room.error());
  for (const SessionPtr& session : sessions) show(call, *session, *reply.add_sessions());
  co_return Status{};
}

}  // namespace caisson::grpc
