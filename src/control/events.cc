#include "control/events.h"

#include <algorithm>

#include "engine/channel/wakeup.h"

namespace caisson::control {

struct EventRing::State {
  boost::asio::any_io_executor executor;
  std::deque<Event> events;
  std::uint64_t next = 1;  // sequence of the next event
  bool closed = false;
  std::vector<engine::Wakeup*> waiting;  // one per follower

  [[nodiscard]] std::uint64_t oldest() const { return next - events.size(); }
};

class Follower final : public EventStream {
 public:
  Follower(std::shared_ptr<EventRing::State> state, EventFilter filter, std::uint64_t at)
      : state_(std::move(state)), filter_(std::move(filter)), at_(at), wakeup_(state_->executor) {
    state_->waiting.push_back(&wakeup_);
  }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower() override { std::erase(state_->waiting, &wakeup_); }

  awaitable<Result<Event>> next() override {
    for (;;) {
      if (at_ < state_->oldest())
        co_return failure(Errc::Gone,
                          "events were lost: the reader was too slow; follow again from now on");
      while (at_ < state_->next) {
        const Event& event = state_->events[static_cast<std::size_t>(at_++ - state_->oldest())];
        if (wants(event)) co_return event;
      }
      if (state_->closed) co_return failure(Errc::Gone, "the server ends");
      if (co_await wakeup_.wait() == engine::Wake::Cancelled)
        co_return failure(Errc::Gone, "the reader left");
    }
  }

 private:
  [[nodiscard]] bool wants(const Event& event) const {
    return (!filter_.tenant || *filter_.tenant == event.tenant) &&
           (!filter_.sandbox || *filter_.sandbox == event.sandbox);
  }

  std::shared_ptr<EventRing::State> state_;
  EventFilter filter_;
  std::uint64_t at_;
  engine::Wakeup wakeup_;
};

EventRing::EventRing(boost::asio::any_io_executor executor) : state_(std::make_shared<State>()) {
  state_->executor = std::move(executor);
}

EventRing::~EventRing() { close(); }

void EventRing::add(std::string type, std::string tenant, std::string sandbox,
                    boost::json::object data) {
  if (state_->closed) return;
  Event event;
  event.sequence = state_->next++;
  event.time = store::wall_now();
  event.type = std::move(type);
  event.tenant = std::move(tenant);
  event.sandbox = std::move(sandbox);
  event.data = std::move(data);
  state_->events.push_back(std::move(event));
  if (state_->events.size() > kEventsMax) state_->events.pop_front();
  for (engine::Wakeup* follower : state_->waiting) follower->wake();
}

Result<std::unique_ptr<EventStream>> EventRing::follow(EventFilter filter, std::uint64_t after) {
  if (state_->closed) return failure(Errc::Gone, "the server ends");
  if (state_->waiting.size() >= kFollowersMax)
    return failure(Errc::Exhausted, "too many follow the events (1024)");
  const std::uint64_t at =
      std::clamp(after == UINT64_MAX ? after : after + 1, state_->oldest(), state_->next);
  return std::make_unique<Follower>(state_, std::move(filter), at);
}

void EventRing::close() {
  state_->closed = true;
  for (engine::Wakeup* follower : state_->waiting) follower->wake();
}

}  // namespace caisson::control
