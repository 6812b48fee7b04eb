// control/state_seal.h — the records of file state are authenticated: one that somebody wrote or
// changed behind our back is found before it is used, and so is one that was moved to another
// tenant, kind or name.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/store.h"

namespace caisson::control {

// When its file is missing. With another key than they were sealed with, all records are foreign.
enum class NewKey : std::uint8_t { Make, Refuse };

class StateSeal {
 public:
  // An empty path: a key of this process alone, for a server whose records go with it.
  [[nodiscard]] static Result<StateSeal> open(const std::string& path,
                                              NewKey missing = NewKey::Make);

  [[nodiscard]] store::FileRecord seal(store::FileKey key, store::WallTime created,
                                       const boost::json::object& body) const;
  // Denied when it is not ours.
  [[nodiscard]] Result<boost::json::object> unseal(const store::FileRecord& record) const;

 private:
  explicit StateSeal(std::string key) : key_(std::move(key)) {}
  [[nodiscard]] std::string mac(const store::FileKey& key, std::string_view body) const;
  std::string key_;
};

}  // namespace caisson::control
