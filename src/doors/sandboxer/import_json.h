// doors/sandboxer/import_json.h — what another installation had, out of the JSON that brings it.
#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"
#include "doors/sandboxer/sandboxer.h"

namespace caisson::sandboxer {

inline constexpr std::size_t kImportItemsMax = 4096;  // of each kind, in one call
inline constexpr std::size_t kImportTextBytesMax = 1024UL * 1024;

// Bad input names its place: "sandboxes[3].id".
[[nodiscard]] Result<ImportWish> import_wish(const boost::json::object& body);
[[nodiscard]] boost::json::object to_json(const ImportCount& count);

}  // namespace caisson::sandboxer
