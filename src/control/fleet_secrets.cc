// Secrets that rules name, and the authority of a sandbox whose TLS we end.
#include "control/fleet_impl.h"

namespace caisson::control {

Result<Vault*> FleetImpl::vault() const {
  if (options_.vault) return options_.vault.get();
  return failure(Errc::Unsupported, "this server keeps no secrets");
}

awaitable<Result<void>> FleetImpl::put_secret(const Caller& caller, std::string name,
                                              std::string value) {
  Audited audit(*this, row(caller, "secret.put", "", name));
  auto works = co_await store_works(audit);
  Result<void> done = works;
  if (done) {
    auto kept = vault();
    done = kept ? (*kept)->put(name, std::move(value)) : std::unexpected(kept.error());
  }
  if (!works) co_return done;
  co_return co_await settle(audit, std::move(done));
}

Result<std::vector<std::string>> FleetImpl::secret_names(const Caller& /*caller*/) {
  return TRY(vault())->names();
}

awaitable<Result<void>> FleetImpl::remove_secret(const Caller& caller, std::string name) {
  Audited audit(*this, row(caller, "secret.remove", "", name));
  auto works = co_await store_works(audit);
  if (!works) co_return works;
  auto kept = vault();
  Result<void> done = kept ? (*kept)->remove(name) : std::unexpected(kept.error());
  co_return co_await settle(audit, std::move(done));
}

Result<std::shared_ptr<egress::Authority>> FleetImpl::make_authority(
    const SandboxPlan& plan, std::optional<KeptAuthority>& kept) const {
  std::vector<std::string> domains = intercepted_domains(plan.spec.egress);
  if (plan.authority_for_every_name) domains = {std::string(policy::kEveryName)};
  if (domains.empty()) return std::shared_ptr<egress::Authority>();
  Vault* keeper = TRY_IN("network.rules", vault());
  auto made = TRY_IN("network.rules",
                     egress::Authority::make(plan.name, domains, std::chrono::system_clock::now()));
  const egress::Secret key = TRY(made.key());
  kept = KeptAuthority{made.certificate_pem(), TRY(keeper->seal(made.certificate_pem(), key)),
                       made.domains()};
  return std::make_shared<egress::Authority>(std::move(made));
}

// After a restart: the one that the sandbox trusts already.
Result<void> FleetImpl::restore_authority(Sandbox& sandbox) const {
  if (!sandbox.kept.authority || sandbox.authority) return {};
  const KeptAuthority& kept = *sandbox.kept.authority;
  Vault* keeper = TRY(vault());
  const egress::Secret key = TRY(keeper->unseal(kept.certificate, kept.sealed_key));
  auto restored = TRY(egress::Authority::restore(kept.certificate, key, kept.domains));
  sandbox.authority = std::make_shared<egress::Authority>(std::move(restored));
  return {};
}

}  // namespace caisson::control
