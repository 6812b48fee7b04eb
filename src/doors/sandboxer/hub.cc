#include "doors/sandboxer/hub.h"

#include "doors/sandboxer/words.h"
#include "doors/shared/json_text.h"

namespace caisson::sandboxer {

void Hub::tell(const std::string& tenant, std::string_view type, std::string_view id,
               std::optional<boost::json::object> data, store::WallTime now) {
  const auto at = listeners_.find(tenant);
  if (at == listeners_.end()) return;
  boost::json::object event{{"type", type}, {"container_id", id}};
  if (data) event["data"] = *std::move(data);
  event["timestamp"] = seconds_of(now);
  const std::string text = "data: " + doors::json_text(event) + "\n\n";
  for (auto one = at->second.begin(); one != at->second.end();) {
    const auto listener = one->lock();
    if (listener) listener->put(text);
    one = listener ? std::next(one) : at->second.erase(one);
  }
  if (at->second.empty()) listeners_.erase(at);
}

std::shared_ptr<Mailbox> Hub::listen(const std::string& tenant) {
  auto box = std::make_shared<Mailbox>(executor_, kListenerBytesMax);
  if (closed_) box->close();
  auto& all = listeners_[tenant];
  std::erase_if(all, [](const auto& one) { return one.expired(); });
  all.push_back(box);
  return box;
}

void Hub::close() {
  closed_ = true;
  for (const auto& [tenant, all] : listeners_) {
    for (const auto& one : all) {
      if (const auto listener = one.lock()) listener->close();
    }
  }
}

}  // namespace caisson::sandboxer
