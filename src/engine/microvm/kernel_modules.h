// engine/microvm/kernel_modules.h — which modules a machine needs of a distribution's kernel, and
// in which order they are loaded. Pure: what a module says of itself comes as bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace caisson::engine::microvm {

inline constexpr std::size_t kModulesMax = 64;

struct Module {
  std::string name;  // as the kernel spells it, with '_'
  std::vector<std::byte> content;
  bool may_fail = false;  // another one does the same where this one is refused

  friend bool operator==(const Module&, const Module&) = default;
};

// The names in the "depends" field of a module's own description.
[[nodiscard]] Result<std::vector<std::string>> dependencies_of(std::span<const std::byte> module);

// Where modules come from: the file's content, or nothing where there is none of that name.
using FindModule =
    std::function<Result<std::optional<std::vector<std::byte>>>(const std::string& name)>;

// Everything a machine needs, each after what it depends on. What is `builtin` needs no file.
[[nodiscard]] Result<std::vector<Module>> needed_modules(const FindModule& find,
                                                         const std::set<std::string>& builtin);

// "kernel/fs/erofs/erofs.ko.xz" is "erofs"; and '-' is '_'. Empty when it is no module.
[[nodiscard]] std::string module_name(std::string_view path);

}  // namespace caisson::engine::microvm
