// A new session.
#include <fmt/format.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <cmath>
#include <variant>

#include "control/open_fleet.h"
#include "control/tools.h"
#include "doors/daiv/egress.h"
#include "doors/daiv/schema.h"
#include "doors/daiv/sessions.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr std::string_view kHostImage = "host";

struct StartWish {
  std::string base_image;
  bool ephemeral = false;
  bool extract_patch = false;
  bool network_enabled = false;
  Pairs environment;
  std::optional<std::int64_t> memory_bytes;
  std::optional<double> cpus;
  std::optional<Egress> egress;
};

Result<StartWish> read_start(Call& call) {
  Problems problems;
  StartWish wish;
  if (call.body.missing) {
    problems.missing(json::array{"body"}, nullptr);
    return refuse(call, problems);
  }
  json::object* object = call.body.value.if_object();
  json::value* egress = object == nullptr ? nullptr : object->if_contains("egress");
  SecretValues values = hide_secrets(egress);
  Fields fields(call.body.value, json::array{"body"}, problems);
  wish.base_image = fields.text("base_image");
  wish.ephemeral = fields.flag("ephemeral", false);
  wish.extract_patch = fields.flag("extract_patch", false);
  wish.network_enabled = fields.flag("network_enabled", false);
  wish.environment = fields.pairs_or_null("environment");
  wish.memory_bytes = fields.integer_or_null("memory_bytes");
  wish.cpus = fields.number_or_null("cpus");
  if (const json::value* said = fields.find_not_null("egress"))
    wish.egress = read_egress(*said, std::move(values), fields.loc("egress"), problems);
  if (!problems.empty()) return refuse(call, problems);
  if (wish.memory_bytes && *wish.memory_bytes < 0)
    return refuse(call, 422, fmt::format("memory_bytes is {}: want 0 or more", *wish.memory_bytes));
  if (wish.cpus && (!std::isfinite(*wish.cpus) || *wish.cpus < 0))
    return refuse(call, 422, fmt::format("cpus is {}: want 0 or more", *wish.cpus));
  return wish;
}

awaitable<Result<void>> pull(Call& call, std::string reference) {
  control::PullWish wish;
  wish.reference = std::move(reference);
  wish.refresh = false;
  auto stream = co_await call.fleet().pull_image(call.caller, std::move(wish));
  if (!stream) co_return std::unexpected(stream.error());
  for (;;) {
    auto item = co_await (*stream)->next();
    if (!item) co_return std::unexpected(item.error());
    if (std::holds_alternative<control::ImageView>(*item)) co_return Result<void>{};
  }
}

// What is here is never refreshed; only what is missing is fetched.
awaitable<Result<void>> have_image(Call& call, std::string reference) {
  using namespace boost::asio::experimental::awaitable_operators;
  if (reference == kHostImage) co_return Result<void>{};
  const auto here = call.fleet().image(call.caller, reference);
  if (here) co_return Result<void>{};
  if (here.error().code != Errc::NotFound) co_return refuse(call, 400, here.error().message);
  auto first = co_await (pull(call, std::move(reference)) || call.exchange.wait_for_hangup());
  if (first.index() != 0) {
    call.exchange.close_after();
    co_return failure(Errc::Gone, "the caller hung up");
  }
  const Result<void>& pulled = std::get<0>(first);
  // Whether the registry will have it later, nobody knows; the client should not wait for it.
  if (!pulled) co_return refuse(call, 400, pulled.error().message);
  co_return Result<void>{};
}

constexpr std::string_view kNoEgress =
    "egress requires the egress proxy, which is not configured on this deployment";

awaitable<bool> keeps_files(Call& call) {
  if (!call.services.keeps_files) {
    auto facts = co_await call.fleet().storage(call.caller);
    if (!facts) co_return false;  // asked again the next time
    call.services.keeps_files = facts->limits;
  }
  co_return *call.services.keeps_files;
}

// Without a policy.
control::NetworkWish network_of(const StartWish& wish) {
  control::NetworkWish network;
  network.mode = "none";
  if (wish.network_enabled) {
    // Everywhere that is public. The original lets such a session reach the host, its neighbours
    // and the cloud's metadata as well; our gate opens no inward address to any rule of a client.
    network.rules = control::EgressRules{everywhere(false)};
    network.mode = "allowlist";
  }
  return network;
}

control::CreateWish create_wish(const StartWish& wish, const DaivOptions& options) {
  control::CreateWish out;
  out.image = wish.base_image;
  out.root = engine::RootMode::Writable;
  out.uid = options.run_uid;
  out.gid = options.run_gid;
  out.environment = wish.environment;
  out.tools =
      std::vector<std::string>{std::string(control::kShellExec), std::string(control::kFileRead),
                               std::string(control::kFileWrite), std::string(control::kFileList)};
  for (const std::string_view folder : {kRoot, kRepo, kSkills, std::string_view("/workspace/tmp"),
                                        std::string_view("/workdir"), kHome})
    out.folders.emplace_back(folder);
  out.aliases = {{"/repo", std::string(kRepo)}};
  out.workdir = kRepo;
  if (wish.memory_bytes && *wish.memory_bytes > 0)
    out.limits.memory_bytes = static_cast<std::uint64_t>(*wish.memory_bytes);
  if (wish.cpus && *wish.cpus > 0) out.limits.cpu = wish.cpus;
  // The reaper of this door ends sessions, and nobody else.
  out.limits.timeout_seconds =
      options.life_seconds > 0 ? options.life_seconds : control::kLifeSecondsMax;
  out.limits.idle_seconds = control::kLifeSecondsMax;
  out.network = network_of(wish);
  out.labels[std::string(kTypeLabel)] = kTypeSession;
  if (wish.ephemeral) out.labels[std::string(kEphemeralLabel)] = "1";
  if (wish.extract_patch) out.labels[std::string(kPatchLabel)] = "1";
  if (wish.ephemeral || wish.extract_patch || wish.network_enabled)
    out.labels[std::string(kOlderApiLabel)] = "1";
  return out;
}

// A server may bound lives; then its own habit must do.
awaitable<Result<control::SandboxView>> create(Call& call, control::CreateWish wish) {
  control::CreateWish shorter = wish;
  auto made = co_await call.fleet().create(call.caller, std::move(wish));
  if (made || made.error().field != "resource_limits.timeout_seconds") co_return made;
  shorter.limits.timeout_seconds.reset();
  co_return co_await call.fleet().create(call.caller, std::move(shorter));
}

std::unexpected<Error> not_started(Call& call, const Error& error) {
  const bool network = error.field.starts_with("network");
  const bool client = error.code == Errc::InvalidArgument || error.code == Errc::Unsupported ||
                      error.code == Errc::Denied;
  if (client && network)
    return refuse(call, 422, fmt::format("egress or network_enabled: {}", error.message));
  if (client && !error.field.empty()) return refuse(call, 422, error.message);
  return std::unexpected(error);
}

// Secrets first, because rules name them; what fails later takes them away again.
awaitable<Result<control::SandboxView>> create_with_egress(Call& call, StartWish wish,
                                                           bool persistent) {
  auto kept = co_await keep_secrets(call.services, call.caller, *wish.egress);
  if (!kept && kept.error().code == Errc::Unsupported) co_return refuse(call, 400, kNoEgress);
  if (!kept && kept.error().code == Errc::InvalidArgument)
    co_return refuse(call, 422, "egress.secrets: " + kept.error().message);
  if (!kept && kept.error().code == Errc::Exhausted)
    co_return refuse(call, 503, "Egress proxy failed to start");
  if (!kept) co_return std::unexpected(kept.error());
  control::CreateWish request = create_wish(wish, call.options());
  request.persistent = persistent;
  request.labels[std::string(kEgressLabel)] = kept->first_part();
  request.network = network_wish(*wish.egress, *kept);
  auto made = co_await create(call, std::move(request));
  if (made) co_return made;
  co_await drop_secret_names(call.services, call.caller, kept->first_part());
  // Without a place for secrets there is no authority either.
  if (made.error().code == Errc::Unsupported && !made.error().field.starts_with("network"))
    co_return refuse(call, 400, kNoEgress);
  co_return not_started(call, made.error());
}

}  // namespace

awaitable<Result<void>> start_session(Call& call) {
  auto wish = read_start(call);
  if (!wish) co_return std::unexpected(wish.error());
  if (auto have = co_await have_image(call, wish->base_image); !have) co_return have;
  const bool persistent = co_await keeps_files(call);
  Result<control::SandboxView> made;
  if (wish->egress) {
    made = co_await create_with_egress(call, *std::move(wish), persistent);
  } else {
    control::CreateWish request = create_wish(*wish, call.options());
    request.persistent = persistent;
    made = co_await create(call, std::move(request));
    if (!made) co_return not_started(call, made.error());
  }
  if (!made) co_return std::unexpected(made.error());
  call.services.activity.touch(made->id, call.options().now());
  const json::object body{{"session_id", made->id}};
  co_return co_await answer(call, body);
}

}  // namespace caisson::daiv
