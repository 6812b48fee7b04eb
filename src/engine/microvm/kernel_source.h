// engine/microvm/kernel_source.h — where a kernel for machines comes from: a folder that somebody
// names, the host's own, or a package of the distribution that is fetched and unpacked, never
// installed. For `caisson vm setup`; it reads files of the host and starts its package tools.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/microvm/vm_store.h"

namespace caisson::engine::microvm {

// What is being done, for whoever waits.
using Say = std::function<void(std::string_view)>;

// A root with boot/vmlinuz-RELEASE and lib/modules/RELEASE, as a package unpacks; or a folder with
// vmlinux (or vmlinuz), modules/ and a file `release`.
[[nodiscard]] Result<KernelParts> kernel_in(const std::string& folder, const Say& say);

// The one that runs, or else the newest that is installed with everything a machine needs.
[[nodiscard]] Result<KernelParts> kernel_of_host(const Say& say);

// Fetched by apt into a folder below `work`, which is empty again afterwards.
[[nodiscard]] Result<KernelParts> kernel_of_package(const std::string& work, const Say& say);

}  // namespace caisson::engine::microvm
