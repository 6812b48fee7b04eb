// How programs in a sandbox are shown its proxy, and the token by which the proxy knows them.
//
// Two kinds of token. Usually its session is the sandbox's id, which nobody else ever has: the
// claims alone say whose it is. In another dialect the claims are words of that dialect, which two
// tenants may have in common and which come again with the next session of the name: then a token
// is worth something only where we have given it out. What was given out is kept by its digest, and
// the token itself nowhere: the claims, their end and the key make it again.
#include <chrono>

#include "control/fleet_impl.h"
#include "egress/credentials/jwt.h"
#include "store/digest.h"

namespace caisson::control {
namespace {

using Seconds = std::chrono::seconds;

// A command that starts now has so much of its token before it, at least.
constexpr Seconds kTokenLeftMin = std::chrono::hours(1);
// Of one that is taken already, its end comes a second earlier.
constexpr int kTokenTriesMax = 64;

std::int64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Seconds>(now).count();
}

std::string digest_of(std::string_view token) { return store::to_hex(store::sha256(token)); }

struct Shown {
  std::string digest;
  egress::ProxyClaims claims;
};

// Nothing for what is no token of ours, or not any more.
std::optional<Shown> shown_by(Vault& keeper, std::string_view field) {
  const auto token = egress::token_of(field);
  const auto key = keeper.token_key();
  if (!token || !key) return std::nullopt;
  auto claims = egress::verify_token(**key, *token, std::chrono::system_clock::now());
  if (!claims) return std::nullopt;
  return Shown{digest_of(*token), std::move(*claims)};
}

bool has_token(const Sandbox& sandbox, std::string_view digest) {
  const auto& all = sandbox.kept.proxy_tokens;
  return std::ranges::find(all, digest, &KeptToken::digest) != all.end();
}

egress::ProxyClaims claims_for(const Sandbox& sandbox, std::int64_t expires) {
  egress::ProxyClaims claims;
  claims.expires = expires;
  if (const auto& words = sandbox.kept.proxy.words) {
    claims.session_id = words->session_id;
    claims.tenant_id = words->tenant_id;
    claims.allowed_hosts = words->allowed_hosts;
    return claims;
  }
  claims.session_id = sandbox.id;
  claims.tenant_id = sandbox.tenant;
  for (const policy::NetworkEgressRule& rule : sandbox.kept.network)
    claims.allowed_hosts.push_back(rule.domain);
  return claims;
}

}  // namespace

Result<std::vector<std::string>> FleetImpl::way_out_variables(Sandbox& sandbox) {
  const KeptSpec& kept = sandbox.kept;
  if (!kept.proxy.variables || (kept.network.empty() && !kept.proxy.place))
    return std::vector<std::string>();
  const std::string token = kept.token ? TRY(proxy_token(sandbox)) : "";
  return kept.proxy.place ? way_out_environment(token, *kept.proxy.place)
                          : way_out_environment(token);
}

Result<std::string> FleetImpl::proxy_token(Sandbox& sandbox) {
  Vault* keeper = TRY(vault());
  const egress::Secret* key = TRY(keeper->token_key());
  const std::int64_t now = seconds_now();
  if (!sandbox.kept.proxy.words)
    return egress::mint_token(*key, claims_for(sandbox, now + Seconds(egress::kTokenLife).count()));
  if (!sandbox.kept.proxy_tokens.empty()) {
    const KeptToken& last = sandbox.kept.proxy_tokens.back();
    if (last.expires - now >= kTokenLeftMin.count()) {
      std::string token = TRY(egress::mint_token(*key, claims_for(sandbox, last.expires)));
      if (digest_of(token) == last.digest) return token;  // else the key is another one by now
    }
  }
  std::string token = TRY(fresh_token(sandbox));
  store::Store::Batch batch;
  batch.sandboxes.push_back(stored(sandbox));
  post(std::move(batch));
  return token;
}

Result<std::string> FleetImpl::fresh_token(Sandbox& sandbox) {
  Vault* keeper = TRY(vault());
  const egress::Secret* key = TRY(keeper->token_key());
  const std::int64_t now = seconds_now();
  egress::ProxyClaims claims = claims_for(sandbox, now + Seconds(egress::kTokenLife).count());
  std::string token;
  std::string digest;
  for (int i = 0; i < kTokenTriesMax; ++i, --claims.expires) {
    token = TRY(egress::mint_token(*key, claims));
    digest = digest_of(token);
    if (!token_homes_.contains(digest)) break;
    digest.clear();
  }
  if (digest.empty())
    return failure(Errc::Exhausted,
                   "network.words: too many sandboxes with the same words at once; try again");
  auto& given = sandbox.kept.proxy_tokens;
  std::erase_if(given, [now](const KeptToken& one) { return one.expires < now; });
  if (given.size() >= kProxyTokensMax) given.erase(given.begin());
  given.push_back({digest, claims.expires});
  keep_token_home(sandbox, digest);
  return token;
}

// Whether it can be made is said to who creates, not to who runs a command later.
Result<void> FleetImpl::give_token(Sandbox& sandbox) {
  const auto& words = sandbox.kept.proxy.words;
  if (!words || !sandbox.kept.token) return {};
  // Else the claims would be those of the other one's tokens, which are known by them alone.
  if (living_.contains(words->session_id))
    return bad_field("network.words.session_id",
                     "network.words.session_id: is the id of a sandbox; choose another name");
  TRY(fresh_token(sandbox));
  return {};
}

void FleetImpl::keep_token_home(Sandbox& sandbox, const std::string& digest) {
  if (token_homes_.size() >= token_homes_sweep_) {
    std::erase_if(token_homes_, [](const auto& one) {
      const auto home = one.second.lock();
      return !home || !has_token(*home, one.first);
    });
    token_homes_sweep_ = std::max(kTokenHomesSweepMin, 2 * token_homes_.size());
  }
  token_homes_[digest] = sandbox.weak_from_this();
}

// The listener says whose connection it is; the token must say the same. It is worth nothing
// elsewhere, and nothing when the sandbox is gone, because then nobody listens.
egress::Identify FleetImpl::identify_for(const SandboxPtr& sandbox) const {
  if (!sandbox->kept.token) return {};
  if (!options_.vault) return [](std::string_view) { return egress::Identity::Unknown; };
  const auto keeper = options_.vault;
  if (sandbox->kept.proxy.words) {
    return [weak = Passed(sandbox), keeper](std::string_view field) -> egress::Identified {
      const auto shown = shown_by(*keeper, field);
      if (!shown) return egress::Identity::Unknown;
      const auto home = weak.lock();
      const bool own = home && has_token(*home, shown->digest);
      return own ? egress::Identity::Confirmed : egress::Identity::Other;
    };
  }
  return [id = sandbox->id, keeper](std::string_view field) -> egress::Identified {
    const auto shown = shown_by(*keeper, field);
    if (!shown) return egress::Identity::Unknown;
    if (shown->claims.session_id != id) return egress::Identity::Other;
    egress::Identified who(egress::Identity::Confirmed);
    who.within =
        std::make_shared<const EgressRules>(egress::rules_of_hosts(shown->claims.allowed_hosts));
    return who;
  };
}

std::shared_ptr<egress::Gate> FleetImpl::gate_of_token(std::string_view field) const {
  if (!options_.vault) return nullptr;
  const auto shown = shown_by(*options_.vault, field);
  if (!shown) return nullptr;
  if (const auto at = token_homes_.find(shown->digest); at != token_homes_.end()) {
    const auto home = at->second.lock();
    return home && has_token(*home, shown->digest) ? home->gate : nullptr;
  }
  const auto at = living_.find(shown->claims.session_id);
  // One that asks for no token on its own listener would ask for none here, either.
  if (at == living_.end() || !at->second->kept.token || at->second->kept.proxy.words)
    return nullptr;
  return at->second->gate;
}

Result<std::uint16_t> FleetImpl::serve_host_port(const std::string& host, std::uint16_t port) {
  auto find = [fleet = alive()](std::string_view field) -> std::shared_ptr<egress::Gate> {
    const auto self = fleet.lock();
    return self ? (*self)->gate_of_token(field) : nullptr;
  };
  host_proxy_ = TRY(HostProxy::open(executor_, host, port, std::move(find)));
  return host_proxy_->port();
}

}  // namespace caisson::control
