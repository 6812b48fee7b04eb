#include "http/hop_fields.h"

#include <algorithm>
#include <array>

namespace caisson::http {
namespace {

constexpr std::array<std::string_view, 11> kHopByHop = {"connection",
                                                        "keep-alive",
                                                        "proxy-connection",
                                                        "proxy-authenticate",
                                                        "te",
                                                        "trailer",
                                                        "proxy-authorization",
                                                        "upgrade",
                                                        "transfer-encoding",
                                                        "http2-settings",
                                                        "content-length"};

}  // namespace

HopFields::HopFields(const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    if (!same_name(field.name, "connection")) continue;
    std::string_view list = field.value;
    while (!list.empty()) {
      const std::size_t comma = std::min(list.find(','), list.size());
      const std::string_view item = trim(list.substr(0, comma));
      if (!item.empty()) named_.push_back(item);
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }
}

bool HopFields::drops(std::string_view name) const noexcept {
  const auto same = [&](std::string_view own) { return same_name(own, name); };
  return std::ranges::any_of(kHopByHop, same) || std::ranges::any_of(named_, same);
}

}  // namespace caisson::http
