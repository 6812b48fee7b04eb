// The way out of a sandbox: its gate, the rows about it, a change of rules while it lives, and the
// tool that goes through it.
#include <fcntl.h>
#include <fmt/format.h>

#include "control/fleet_impl.h"
#include "control/text.h"
#include "control/tools.h"
#include "engine/plan.h"
#include "policy/json_text.h"
#include "sys/file.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr std::size_t kResolvConfBytesMax = 64UL * 1024;
constexpr std::size_t kPathBytesMax = 256;  // of a request, in a row

std::vector<egress::NameServer> name_servers(const FleetOptions& options) {
  if (!options.name_servers.empty()) return options.name_servers;
  const auto text = sys::read_small(AT_FDCWD, "/etc/resolv.conf", kResolvConfBytesMax);
  return text ? egress::read_resolv_conf(*text) : std::vector<egress::NameServer>{};
}

std::string action_of(const egress::Passage& passage, bool first) {
  if (passage.way == egress::Way::Resolver) return "egress.resolve";
  return first ? "egress.connect" : "egress.request";
}

std::string object_of(const egress::Passage& passage) {
  return passage.port == 0 ? passage.host : fmt::format("{}:{}", passage.host, passage.port);
}

bool let_through(const egress::Verdict& verdict) {
  return verdict.outcome != egress::Outcome::Deny;
}

std::uint16_t extra_proxy_port(const Sandbox& sandbox) {
  return sandbox.kept.proxy.place ? sandbox.kept.proxy.place->port : 0;
}

void put_details(json::object& out, const egress::Passage& passage) {
  out["way"] = egress::to_string(passage.way);
  out["reason"] = egress::to_string(passage.verdict.reason);
  if (passage.verdict.rule_index) out["rule"] = *passage.verdict.rule_index;
  if (!passage.method.empty()) out["method"] = cut_text(passage.method, 32);
  if (!passage.path.empty()) out["path"] = cut_text(passage.path, kPathBytesMax);
  if (!let_through(passage.verdict)) out["message"] = cut_text(passage.verdict.text, 512);
  if (passage.repeats != 0) out["repeats"] = passage.repeats;
}

}  // namespace

std::shared_ptr<egress::Resolver> FleetImpl::resolver() {
  if (!resolver_) {
    egress::ResolverOptions options;
    options.servers = name_servers(options_);
    resolver_ = egress::Resolver::make(executor_, std::move(options));
  }
  return resolver_;
}

Result<void> FleetImpl::open_gate(const SandboxPtr& sandbox, engine::GateSockets sockets) {
  egress::InsideSockets inside;
  inside.listeners = std::move(sockets.listeners);
  inside.resolver = std::move(sockets.resolver);
  if (sockets.steering) inside.held.push_back(std::move(sockets.steering));
  for (const KeptToken& one : sandbox->kept.proxy_tokens) keep_token_home(*sandbox, one.digest);
  egress::GateOptions options;
  options.sandbox = sandbox->id;
  options.rules = TRY(egress::Rules::compile(sandbox->kept.network));
  options.resolver = resolver();
  options.witness = witness(sandbox);
  options.trust_store = options_.trust_store;
  options.authority = sandbox->authority;
  options.gateway = gateway_of(sandbox);
  options.identify = identify_for(sandbox);
  if (const auto& place = sandbox->kept.proxy.place) {
    options.proxy.port = place->port;
    // An address is found without a resolver.
    if (const auto name = egress::HostName::parse(place->host)) options.proxy.name = *name;
  }
  if (const std::shared_ptr<Vault> vault = options_.vault)
    options.secrets = [vault](std::string_view name) { return vault->find(name); };
  sandbox->gate = TRY(egress::Gate::open(executor_, std::move(inside), std::move(options)));
  return {};
}

// After a restart: the sockets of the server before went with it.
awaitable<Result<void>> FleetImpl::reopen_gate(SandboxPtr sandbox) {
  auto trusted = restore_authority(*sandbox);
  if (!trusted) co_return std::unexpected(trusted.error().within("the way out"));
  if (!sandbox->kept.has_gate()) co_return Result<void>();
  auto sockets = co_await launcher_->open_gate(
      sandbox->id, engine::gate_ports(sandbox->kept.network), extra_proxy_port(*sandbox));
  if (!sockets) co_return std::unexpected(sockets.error().within("the way out"));
  co_return open_gate(sandbox, std::move(*sockets));
}

// A request of a tool may still hold it.
void FleetImpl::close_gate(Sandbox& sandbox) noexcept {
  if (!sandbox.gate) return;
  sandbox.gate->close();
  sandbox.gate.reset();
}

// ----------------------------------------------------------------------------------------------
// rows

egress::Witness FleetImpl::witness(const SandboxPtr& sandbox) {
  const std::weak_ptr<FleetImpl*> fleet = alive();
  const Passed weak = sandbox;
  egress::Witness out;
  out.decided = [fleet, weak](egress::Passage passage) {
    return passage_decided(fleet, weak, std::move(passage));
  };
  out.noted = [fleet, weak](const egress::Passage& passage) {
    const auto self = fleet.lock();
    const auto kept = weak.lock();
    return self && kept && (*self)->passage_noted(*kept, passage);
  };
  out.ended = [fleet, weak](const egress::Farewell& farewell) {
    const auto self = fleet.lock();
    const auto kept = weak.lock();
    if (self && kept) (*self)->passage_ended(*kept, farewell);
  };
  return out;
}

awaitable<Result<void>> FleetImpl::passage_decided(std::weak_ptr<FleetImpl*> fleet, Passed weak,
                                                   egress::Passage passage) {
  const auto self = fleet.lock();
  const auto sandbox = weak.lock();
  if (!self || !sandbox) co_return failure(Errc::Gone, "the sandbox has ended");
  FleetImpl& all = **self;
  const bool allowed = let_through(passage.verdict);
  ++(allowed ? all.counters_.egress_allowed : all.counters_.egress_denied);
  Audited audit(all, all.own_row(*sandbox, std::string(kGuestActor), action_of(passage, true),
                                 object_of(passage)));
  auto works = co_await all.store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  put_details(audit.detail, passage);
  audit.judge(nullptr);
  if (!allowed) audit.row.outcome = store::Outcome::Denied;
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  auto written = co_await all.record(std::move(batch));
  audit.written();
  co_return written;
}

bool FleetImpl::passage_noted(const Sandbox& sandbox, const egress::Passage& passage) {
  const bool allowed = let_through(passage.verdict);
  ++(allowed ? counters_.egress_allowed : counters_.egress_denied);
  if (rows_missing()) return false;
  Audited audit(*this, own_row(sandbox, std::string(kGuestActor), action_of(passage, false),
                               object_of(passage)));
  if (!within_budget(audit)) return false;
  put_details(audit.detail, passage);
  audit.judge(nullptr);
  if (!allowed) audit.row.outcome = store::Outcome::Denied;
  return true;  // the destructor posts it
}

void FleetImpl::passage_ended(const Sandbox& sandbox, const egress::Farewell& farewell) {
  counters_.egress_bytes_up += farewell.bytes_up;
  counters_.egress_bytes_down += farewell.bytes_down;
  Audited audit(*this, own_row(sandbox, std::string(kGuestActor), "egress.end",
                               fmt::format("{}:{}", farewell.host, farewell.port)));
  if (!within_budget(audit)) return;
  audit.detail["way"] = egress::to_string(farewell.way);
  if (farewell.rule_index) audit.detail["rule"] = *farewell.rule_index;
  audit.detail["bytes_up"] = farewell.bytes_up;
  audit.detail["bytes_down"] = farewell.bytes_down;
  audit.detail["seconds"] = std::chrono::duration<double>(farewell.lasted).count();
  audit.judge(nullptr);
}

// ----------------------------------------------------------------------------------------------
// change

awaitable<Result<SandboxView>> FleetImpl::set_network(const Caller& caller, std::string id,
                                                      NetworkWish wish) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "sandbox.network", sandbox->id, ""));
  const auto refuse = [](const Error& error) -> Result<SandboxView> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  if (wish.token && *wish.token != sandbox->kept.token) {
    Error fixed{Errc::InvalidArgument,
                "network.token: is fixed when a sandbox is created; leave it out", 0,
                "network.token"};
    co_return co_await settle(audit, refuse(fixed));
  }
  if (const auto same = check_proxy_kept(wish, sandbox->kept.proxy); !same)
    co_return co_await settle(audit, refuse(same.error()));
  auto rules = rules_of(wish, caller.may(store::Scope::Admin) ? Trust::Operator : Trust::Caller);
  if (!rules) co_return co_await settle(audit, refuse(rules.error()));
  // Of one that is stopped they are the rules of its next start, which must not happen meanwhile.
  Turns::Turn turn;
  if (sandbox->state == State::Stopped) {
    auto taken = co_await sandbox->files->take();
    if (!taken) co_return co_await settle(audit, refuse(taken.error()));
    turn = *std::move(taken);
  }
  const auto unstarted = co_await unmoved(sandbox.ptr());
  if (!unstarted) co_return co_await settle(audit, refuse(unstarted.error()));
  if (sandbox->changing)
    co_return co_await settle(
        audit, refuse(Error{Errc::Busy, "the sandbox is being changed; try again", 0}));
  sandbox->changing = true;
  auto done = co_await change_network(sandbox.ptr(), *std::move(rules), audit);
  sandbox->changing = false;
  if (!done && audit.settled()) co_return refuse(done.error());
  if (!done) co_return co_await settle(audit, refuse(explain(*sandbox, done.error())));
  events_.add("sandbox.network", sandbox->tenant, sandbox->id,
              {{"rules", sandbox->kept.network.size()}});
  co_return view(*sandbox);
}

namespace {

// What a sandbox trusts is fixed when it is made.
Result<void> check_authority(const Sandbox& sandbox, const EgressRules& rules) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!rules[i].intercepts()) continue;
    if (sandbox.authority && sandbox.authority->covers(rules[i].domain)) continue;
    const std::string field =
        fmt::format("network.rules[{}].{}", i, rules[i].inject.empty() ? "inspect" : "inject");
    return std::unexpected(
        Error{Errc::Unsupported,
              fmt::format("{}: this sandbox was not made to have its TLS with '{}' looked into, "
                          "and trusts nobody for that; create one with this rule",
                          field, rules[i].domain),
              0, field});
  }
  return {};
}

}  // namespace

namespace {

// init behind another kernel was told the ports of its way out when it was made, and nothing tells
// it of others: they would not be there, and what is kept of its memory could not go on with them.
// That no rule is left needs nobody inside.
Result<void> check_ports_inside(const Sandbox& sandbox, const EgressRules& rules) {
  const bool starts_anew = sandbox.state == State::Stopped && sandbox.kept.hibernated.empty();
  if (sandbox.kept.tier == policy::SandboxTier::Native || rules.empty() || starts_anew) return {};
  const auto& inside = sandbox.kept.ports_inside;
  const auto wanted = engine::gate_ports(rules);
  if (inside && std::ranges::includes(*inside, wanted)) return {};
  std::string remedy = "create one with these rules";
  if (inside && !inside->empty())
    remedy = fmt::format("name none but these ({}), or {}", fmt::join(*inside, ", "), remedy);
  return std::unexpected(Error{
      Errc::Unsupported,
      fmt::format("network.rules: the ports of the way out of a sandbox of the tier '{}' are fixed "
                  "when it is made; {}",
                  engine::tier_name(sandbox.kept.tier), remedy),
      0, "network.rules"});
}

}  // namespace

// The sockets first, because they can fail; then the record; then the rules hold. Whoever hears
// that they do, can rely on the next server to know them, too.
awaitable<Result<void>> FleetImpl::change_network(SandboxPtr sandbox, EgressRules rules,
                                                  Audited& audit) {
  auto compiled = egress::Rules::compile(rules);
  if (!compiled) co_return std::unexpected(compiled.error());
  if (auto restored = restore_authority(*sandbox); !restored) co_return restored;
  auto trusted = check_authority(*sandbox, rules);
  if (!trusted) co_return trusted;
  if (const auto same = check_ports_inside(*sandbox, rules); !same) co_return same;
  engine::GateSockets sockets;
  const bool stopped = sandbox->state == State::Stopped;
  if (!rules.empty() && !sandbox->gate && !stopped) {
    auto opened = co_await launcher_->open_gate(sandbox->id, engine::gate_ports(rules),
                                                extra_proxy_port(*sandbox));
    if (!opened) co_return std::unexpected(opened.error());
    sockets = std::move(*opened);
  }
  if (sandbox->state == State::Ended) co_return std::unexpected(explain(*sandbox, Error{}));
  EgressRules before = std::exchange(sandbox->kept.network, std::move(rules));
  audit.detail["network"] = to_json(sandbox->kept.network);
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.sandboxes.push_back(stored(*sandbox));
  auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) {
    sandbox->kept.network = std::move(before);
    co_return written;
  }
  if (sandbox->state == State::Ended) co_return std::unexpected(explain(*sandbox, Error{}));
  if (stopped) co_return Result<void>();
  if (!sandbox->kept.has_gate()) {
    close_gate(*sandbox);
  } else if (sandbox->gate) {
    sandbox->gate->replace_rules(*std::move(compiled));
  } else {
    co_return open_gate(sandbox, std::move(sockets));
  }
  co_return Result<void>();
}

// ----------------------------------------------------------------------------------------------
// http_request

awaitable<Result<json::object>> FleetImpl::http_tool(SandboxPtr sandbox, json::object arguments,
                                                     Audited& audit) {
  auto request = http_request_arguments(arguments);
  if (!request) co_return std::unexpected(request.error());
  if (!sandbox->gate)
    co_return std::unexpected(Error{Errc::Denied,
                                    "arguments.url: this sandbox has no network; create it with "
                                    "network.domain_allowlist, or PUT …/network",
                                    0, "arguments.url"});
  audit.detail["method"] = cut_text(request->method, 32);
  const std::shared_ptr<egress::Gate> gate = sandbox->gate;
  auto answer = co_await gate->fetch(*std::move(request));
  if (!answer) co_return std::unexpected(answer.error());
  audit.detail["status"] = answer->status;
  audit.detail["bytes"] = answer->body.size();
  co_return http_request_answer(*answer);
}

}  // namespace caisson::control
