#include "doors/daiv/reaper.h"

#include <algorithm>
#include <charconv>

#include "doors/daiv/egress.h"
#include "doors/daiv/sessions.h"

namespace caisson::daiv {
namespace {

constexpr std::int64_t kMicros = 1'000'000;

// Of the tenant, in the reaper's own name.
control::Caller reaper_of(std::string tenant) {
  control::Caller caller;
  caller.tenant = std::move(tenant);
  caller.actor = "daiv-reaper";
  caller.scopes = static_cast<std::uint8_t>(store::Scope::Admin);
  return caller;
}

std::vector<control::SandboxView> sessions_of(Services& services, const control::Caller& caller) {
  auto all = services.fleet.list(caller);
  std::erase_if(all, [](const control::SandboxView& one) { return !is_session(one); });
  return all;
}

std::optional<std::int64_t> stopped_at(const control::SandboxView& view) {
  const auto label = view.labels.find(std::string(kStoppedLabel));
  if (label == view.labels.end()) return std::nullopt;
  std::int64_t at = 0;
  const std::string& text = label->second;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), at);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return at;
}

std::int64_t now_seconds(const Services& services) { return services.options.wall() / kMicros; }

bool is_idle(Services& services, const control::SandboxView& view) {
  const auto& options = services.options;
  if (options.running_idle.count() == 0 || view.state == control::State::Creating) return false;
  const auto seen = services.activity.of(view.id);
  if (!seen) {  // after a restart nobody knows: its time begins now
    services.activity.touch(view.id, options.now());
    return false;
  }
  return options.now() - *seen >= options.running_idle;
}

// `still`: whether the reason to remove it holds for what it is by now.
template <class Still>
awaitable<bool> remove_if_still(Services& services, const control::Caller& caller, std::string id,
                                Still still) {
  auto turn = co_await services.fleet.session_turn(caller, id, milliseconds(0));
  if (!turn) co_return false;  // in use, or gone: the next sweep looks again
  const auto view = find_session(services.fleet, caller, id);
  if (!view || !still(*view)) co_return false;
  auto done = co_await services.fleet.destroy(caller, id);
  if (!done) {
    if (services.options.on_failure) services.options.on_failure("reaper", done.error());
    co_return false;
  }
  co_await drop_secrets(services, caller, *view);
  services.activity.forget(id);
  co_return true;
}

struct Stopped {
  std::string id;
  std::int64_t at = 0;
};

// Stopped by the server itself, or by another door: its time begins now.
awaitable<void> stamp_stopped(Services& services, const control::Caller& caller, std::string id) {
  auto turn = co_await services.fleet.session_turn(caller, id, milliseconds(0));
  if (!turn) co_return;
  const auto view = find_session(services.fleet, caller, id);
  if (!view || view->state != control::State::Stopped || stopped_at(*view)) co_return;
  std::map<std::string, std::string> labels{
      {std::string(kStoppedLabel), std::to_string(now_seconds(services))}};
  (void)co_await services.fleet.set_labels(caller, std::move(id), std::move(labels));
}

awaitable<void> sweep_stopped(Services& services, const control::Caller& caller) {
  const std::int64_t grace = services.options.grace.count();
  std::vector<Stopped> left;
  for (const control::SandboxView& one : sessions_of(services, caller)) {
    if (!is_stopped(one)) continue;
    const auto at = stopped_at(one);
    if (!at) {
      co_await stamp_stopped(services, caller, one.id);
      continue;
    }
    const auto over = [&](const control::SandboxView& view) {
      const auto then = stopped_at(view);
      return is_stopped(view) && then && now_seconds(services) - *then >= grace;
    };
    const bool removed = over(one) && co_await remove_if_still(services, caller, one.id, over);
    if (!removed) left.push_back({one.id, *at});
  }
  if (left.size() <= services.options.max_stopped) co_return;
  std::ranges::sort(left, {}, [](const Stopped& one) { return std::pair(one.at, one.id); });
  const std::size_t beyond = left.size() - services.options.max_stopped;
  for (std::size_t i = 0; i < beyond; ++i) {
    const std::int64_t at = left[i].at;
    const auto same = [at](const control::SandboxView& view) {
      return is_stopped(view) && stopped_at(view) == at;
    };
    (void)co_await remove_if_still(services, caller, left[i].id, same);
  }
}

awaitable<void> sweep_running(Services& services, const control::Caller& caller) {
  for (const control::SandboxView& one : sessions_of(services, caller)) {
    const auto idle = [&](const control::SandboxView& view) {
      return !is_stopped(view) && is_idle(services, view);
    };
    if (idle(one)) (void)co_await remove_if_still(services, caller, one.id, idle);
  }
}

}  // namespace

awaitable<void> sweep_sessions(Services& services) {
  std::set<std::string> tenants{services.options.tenant};
  for (const store::TokenRecord& token : services.access.list(reaper_of(services.options.tenant)))
    tenants.insert(token.tenant);
  std::set<std::string> living;
  for (const std::string& tenant : tenants) {
    const control::Caller caller = reaper_of(tenant);
    co_await sweep_stopped(services, caller);
    co_await sweep_running(services, caller);
    for (const control::SandboxView& one : sessions_of(services, caller)) living.insert(one.id);
    co_await drop_orphans(services, caller, sessions_of(services, caller));
  }
  services.activity.keep_if([&](const std::string& id) { return living.contains(id); });
}

}  // namespace caisson::daiv
