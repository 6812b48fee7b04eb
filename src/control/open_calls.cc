#include "control/open_calls.h"

#include <utility>
#include <vector>

namespace caisson::control {

struct OpenCalls::Entry {
  std::weak_ptr<OpenCalls> home;
  std::string actor;
  std::string request_id;
  std::function<void()> cut;
  std::optional<boost::asio::steady_timer> end;  // of a token that expires

  Entry(std::weak_ptr<OpenCalls> where, std::string who, std::string request,
        std::function<void()> how)
      : home(std::move(where)),
        actor(std::move(who)),
        request_id(std::move(request)),
        cut(std::move(how)) {}
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() {
    if (const auto calls = home.lock()) calls->leave(*this);
  }

  void fire() {
    if (const auto once = std::exchange(cut, nullptr)) once();
  }
};

std::shared_ptr<OpenCalls::Entry> OpenCalls::enter(std::string actor, std::string request_id,
                                                   std::function<void()> cut) {
  auto entry = std::make_shared<Entry>(weak_from_this(), std::move(actor), std::move(request_id),
                                       std::move(cut));
  by_actor_[entry->actor].insert(entry.get());
  ++size_;
  return entry;
}

void OpenCalls::leave(Entry& entry) {
  const auto at = by_actor_.find(entry.actor);
  if (at == by_actor_.end()) return;
  size_ -= at->second.erase(&entry);
  if (at->second.empty()) by_actor_.erase(at);
}

std::shared_ptr<void> OpenCalls::add(std::string actor, std::string request_id,
                                     std::function<void()> cut) {
  return enter(std::move(actor), std::move(request_id), std::move(cut));
}

std::shared_ptr<void> OpenCalls::add_until(std::string actor, std::string request_id,
                                           std::function<void()> cut,
                                           const boost::asio::any_io_executor& executor,
                                           microseconds left) {
  auto entry = enter(std::move(actor), std::move(request_id), std::move(cut));
  entry->end.emplace(executor, left);
  entry->end->async_wait(
      [weak = std::weak_ptr<Entry>(entry)](const boost::system::error_code& stopped) {
        const auto kept = weak.lock();
        if (!stopped && kept) kept->fire();
      });
  return entry;
}

void OpenCalls::cut(std::string_view actor, std::string_view but_request_id) {
  const auto at = by_actor_.find(actor);
  if (at == by_actor_.end()) return;
  // To cut runs nothing of the call in this turn, so none of them goes while we look at them.
  const std::vector<Entry*> all(at->second.begin(), at->second.end());
  for (Entry* entry : all) {
    if (but_request_id.empty() || entry->request_id != but_request_id) entry->fire();
  }
}

}  // namespace caisson::control
