// A session's secrets in the server's box. Their names are FIRST-INDEX, and the first part is
// "daiv-", a mark of the tenant, and random letters: the box is one for all tenants, and a sweep
// must tell whose a name is before it may take it for left over.
#include <fmt/format.h>

#include <algorithm>

#include "base/id.h"
#include "doors/daiv/egress.h"
#include "doors/daiv/sessions.h"
#include "store/digest.h"

namespace caisson::daiv {
namespace {

constexpr std::size_t kRandomLetters = 16;

std::string mark_of(const std::string& tenant) {
  const store::Digest digest = store::sha256(tenant);
  return fmt::format("daiv-{:02x}{:02x}{:02x}{:02x}-", digest[0], digest[1], digest[2], digest[3]);
}

std::string_view first_part_of(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  return dash == name.npos ? name : name.substr(0, dash);
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

bool is_named(const std::vector<control::SandboxView>& sessions, const std::string& first) {
  return std::ranges::any_of(sessions, [&](const control::SandboxView& one) {
    const auto label = one.labels.find(std::string(kEgressLabel));
    return label != one.labels.end() && has_word(label->second, first);
  });
}

}  // namespace

KeptSecrets::KeptSecrets(Services& services, std::string first_part)
    : services_(&services), first_part_(std::move(first_part)) {
  services_->new_secrets.insert(first_part_);
}

KeptSecrets::KeptSecrets(KeptSecrets&& other) noexcept
    : services_(std::exchange(other.services_, nullptr)),
      first_part_(std::move(other.first_part_)),
      names_(std::move(other.names_)) {}

KeptSecrets::~KeptSecrets() {
  if (services_ != nullptr) services_->new_secrets.erase(first_part_);
}

control::NetworkWish network_wish(const Egress& egress, const KeptSecrets& kept) {
  control::NetworkWish wish;
  wish.mode = "allowlist";
  wish.rules = egress.rules;
  wish.own_secrets = kept.names();
  wish.authority_for_every_name = true;
  return wish;
}

awaitable<Result<KeptSecrets>> keep_secrets(Services& services, const control::Caller& caller,
                                            Egress& egress) {
  const auto random = SandboxId::random();
  if (!random) co_return std::unexpected(random.error());
  KeptSecrets kept(services, mark_of(caller.tenant) + random->str().substr(0, kRandomLetters));
  std::size_t index = 0;
  for (auto& [name, value] : egress.secrets) {
    const std::string own = fmt::format("{}-{}", kept.first_part(), index++);
    auto put = co_await services.fleet.put_secret(caller, own, std::move(value));
    if (!put) {
      co_await drop_secret_names(services, caller, kept.first_part());
      co_return std::unexpected(put.error());
    }
    kept.names().push_back(own);
    for (policy::NetworkEgressRule& rule : egress.rules) {
      for (policy::HeaderInjection& one : rule.inject) {
        if (one.secret == name) one.secret = own;
      }
    }
  }
  co_return kept;
}

awaitable<void> drop_secret_names(Services& services, const control::Caller& caller,
                                  std::string first_parts) {
  const auto names = services.fleet.secret_names(caller);
  if (!names) co_return;
  // Anybody can write a label: it names none but secrets of this door and this tenant, and none
  // that another session, a fork perhaps, still has.
  const std::string mark = mark_of(caller.tenant);
  const std::vector<control::SandboxView> others = services.fleet.list(caller);
  for (const std::string& name : *names) {
    const std::string first(first_part_of(name));
    if (!name.starts_with(mark) || !has_word(first_parts, first) || is_named(others, first))
      continue;
    (void)co_await services.fleet.remove_secret(caller, name);  // the reaper tries again
  }
}

awaitable<void> drop_secrets(Services& services, const control::Caller& caller,
                             control::SandboxView view) {
  const auto label = view.labels.find(std::string(kEgressLabel));
  if (label != view.labels.end()) co_await drop_secret_names(services, caller, label->second);
}

awaitable<void> drop_orphans(Services& services, const control::Caller& caller,
                             std::vector<control::SandboxView> sessions) {
  const auto names = services.fleet.secret_names(caller);
  if (!names) co_return;
  // As it was when the sessions were listed: what is begun later is in neither list.
  const std::set<std::string> begun = services.new_secrets;
  const std::string mark = mark_of(caller.tenant);
  for (const std::string& name : *names) {
    if (!name.starts_with(mark)) continue;
    const std::string first(first_part_of(name));
    if (is_named(sessions, first) || begun.contains(first)) continue;
    (void)co_await services.fleet.remove_secret(caller, name);
  }
}

}  // namespace caisson::daiv
