// doors/sandboxer/views.h — rows as clients see them.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "doors/sandboxer/call.h"

namespace caisson::sandboxer {

// "running", "paused", … or "terminated".
[[nodiscard]] std::string status_of(const Services& services, const Row& row);
// Where its page is.
[[nodiscard]] std::string url_of(const Call& call, const Row& row);
// An element of the list.
[[nodiscard]] boost::json::object list_view(const Call& call, const Row& row);
[[nodiscard]] boost::json::object detail_view(const Call& call, const Row& row);
// What SDKs build their own objects from.
[[nodiscard]] boost::json::object new_view(const Call& call, const Row& row);

}  // namespace caisson::sandboxer
