#include "doors/mcp/homes.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "control/shield.h"

namespace caisson::mcp {
namespace {

constexpr milliseconds kHomePatience{30'000};  // for another call that makes it

bool lives(control::Fleet& fleet, const control::Caller& caller, const std::string& id) {
  const auto view = fleet.get(caller, id);
  return view && view->state != control::State::Ended;
}

// What it belongs to outlives the door's own state.
awaitable<void> end_sandbox(control::Fleet& fleet, control::Caller owner, std::string id) {
  (void)co_await fleet.destroy(owner, std::move(id));
}

}  // namespace

std::shared_ptr<Home> Homes::of_token(const control::Caller& caller) {
  if (!options_.one_sandbox_per_token) return nullptr;
  if (of_tokens_.size() >= kTokenHomesMax) forget_idle_homes();
  std::shared_ptr<Home>& home = of_tokens_[caller.actor];
  if (!home) home = make();
  return home;
}

void Homes::forget_idle_homes() {
  std::erase_if(of_tokens_, [&](const auto& one) {
    const Home& home = *one.second;
    return one.second.use_count() == 1 &&
           (home.sandbox_.empty() || !lives(fleet_, home.owner_, home.sandbox_));
  });
}

class Homes::Coming {
 public:
  explicit Coming(MadePtr of) : of_(std::move(of)) { ++of_->coming; }
  Coming(Coming&&) noexcept = default;
  Coming& operator=(Coming&&) = delete;
  ~Coming() {
    if (of_) --of_->coming;
  }
  void is_there(const std::string& id) { of_->ids.push_back(id); }

 private:
  MadePtr of_;
};

Homes::MadePtr Homes::living_of(const control::Caller& caller) {
  std::erase_if(made_,
                [](const auto& one) { return one.second->ids.empty() && one.second->coming == 0; });
  MadePtr& own = made_[caller.actor];
  if (!own) own = std::make_shared<Made>();
  std::erase_if(own->ids, [&](const std::string& id) { return !lives(fleet_, caller, id); });
  return own;
}

awaitable<Result<std::string>> Homes::make_counted(control::Fleet& fleet, control::Caller caller,
                                                   control::CreateWish wish, Coming coming,
                                                   std::weak_ptr<void> asker) {
  auto view = co_await fleet.create(caller, std::move(wish));
  if (!view) co_return std::unexpected(view.error());
  if (asker.expired()) {
    co_await end_sandbox(fleet, std::move(caller), view->id);
    co_return failure(Errc::Gone, "the caller left");
  }
  coming.is_there(view->id);
  co_return view->id;
}

awaitable<Result<Place>> Homes::make_one(control::Caller caller) {
  if (!caller.may(store::Scope::Create))
    co_return failure(Errc::Denied,
                      "sandbox: this token may not create one (it lacks the scope \"create\"): "
                      "name one that is there");
  const MadePtr own = living_of(caller);
  if (own->ids.size() + own->coming >= options_.sandboxes_per_token)
    co_return failure(Errc::Exhausted,
                      fmt::format("sandbox: you have {} already; go on in one of them: {}",
                                  own->ids.size(), fmt::join(own->ids, ", ")));
  control::CreateWish wish;
  if (!options_.profile.empty()) wish.profile = options_.profile;
  if (options_.life_seconds > 0) wish.limits.timeout_seconds = options_.life_seconds;
  if (options_.idle_seconds > 0) wish.limits.idle_seconds = options_.idle_seconds;
  wish.labels.emplace(kLabel, "true");
  // A create goes on when its caller leaves, and has to be counted to its end.
  const auto asker = std::make_shared<char>();
  auto id = co_await control::shielded(
      executor_, make_counted(fleet_, std::move(caller), std::move(wish), Coming(own), asker));
  if (!id) co_return std::unexpected(id.error().within("sandbox"));
  co_return Place{*std::move(id), Place::Made::Now};
}

awaitable<Result<Place>> Homes::enter(std::shared_ptr<Home> home, control::Caller caller) {
  auto turn = co_await home->turns_.take(kHomePatience);
  if (!turn) co_return std::unexpected(turn.error().within("sandbox"));
  const bool had = !home->sandbox_.empty();
  if (had && lives(fleet_, caller, home->sandbox_)) co_return Place{home->sandbox_, {}};
  auto place = co_await make_one(caller);
  if (!place) co_return place;
  home->sandbox_ = place->sandbox;
  home->owner_ = std::move(caller);
  if (had) place->made = Place::Made::Again;
  co_return place;
}

void Homes::leave(const std::shared_ptr<Home>& home) {
  if (!home || home->sandbox_.empty()) return;
  boost::asio::co_spawn(executor_, end_sandbox(fleet_, home->owner_, home->sandbox_),
                        boost::asio::detached);
  home->sandbox_.clear();
}

}  // namespace caisson::mcp
