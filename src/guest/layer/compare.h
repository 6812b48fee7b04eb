// guest/layer/compare.h — whether an entry is the same in two states.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/layer/layer.h"

namespace caisson::layer {

using Facts = std::optional<struct stat>;

// One name in one state.
struct Spot {
  int folder = -1;  // where it would be; -1: that folder is not there
  Facts facts;      // nothing: it is not there

  [[nodiscard]] bool exists() const noexcept { return facts.has_value(); }
  [[nodiscard]] bool is_folder() const noexcept { return facts && S_ISDIR(facts->st_mode); }
};

// Sockets are not seen: no state keeps them.
[[nodiscard]] Result<Spot> look(int folder, const std::string& name);
// The folder that the spot is, or none where it is something else.
[[nodiscard]] Result<UniqueFd> enter(const Spot& spot, const std::string& name);
// All names of two folders, either of which may be -1.
[[nodiscard]] Result<std::vector<std::string>> list_both(int a, int b, std::uint64_t names_max);

[[nodiscard]] bool same_type(const Spot& a, const Spot& b) noexcept;
[[nodiscard]] bool same_mode(const Spot& a, const Spot& b) noexcept;  // and owner
// Of two of the same type; folders are not looked into.
[[nodiscard]] Result<bool> same_content(const Spot& a, const Spot& b, const std::string& name,
                                        Meter& meter);
// All of it, and also when neither exists.
[[nodiscard]] Result<bool> same_entry(const Spot& a, const Spot& b, const std::string& name,
                                      Meter& meter);

}  // namespace caisson::layer
