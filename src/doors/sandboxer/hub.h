// doors/sandboxer/hub.h — who listens to the events of a tenant. Nothing is kept for later.
#pragma once

#include <boost/json/object.hpp>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "doors/sandboxer/signal.h"
#include "store/store.h"

namespace caisson::sandboxer {

inline constexpr std::size_t kListenerBytesMax = 256UL * 1024;

class Hub {
 public:
  explicit Hub(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

  // data: JSON's nothing leaves the key out.
  void tell(const std::string& tenant, std::string_view type, std::string_view id,
            std::optional<boost::json::object> data, store::WallTime now);
  // Texts as they go over the wire. It listens while the result lives.
  [[nodiscard]] std::shared_ptr<Mailbox> listen(const std::string& tenant);
  void close();

 private:
  boost::asio::any_io_executor executor_;
  std::map<std::string, std::list<std::weak_ptr<Mailbox>>, std::less<>> listeners_;
  bool closed_ = false;
};

}  // namespace caisson::sandboxer
