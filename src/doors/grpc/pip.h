// doors/grpc/pip.h — what PipInstall lets pass, and where its packages come from. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/network_rules.h"
#include "doors/grpc/grpc.h"

namespace caisson::grpc {

// Both hosts of the public index stand in the list, as they are written.
[[nodiscard]] bool may_use_pip(const std::vector<std::string>& hosts);
// A name, extras, versions; no blanks, addresses, markers or options.
[[nodiscard]] bool is_package(std::string_view text) noexcept;
// For a session that may use pip, where the settings name an index of their own.
[[nodiscard]] control::EgressRules index_rules(const GrpcOptions& options);
[[nodiscard]] std::vector<std::pair<std::string, std::string>> pip_environment(
    const GrpcOptions& options);

}  // namespace caisson::grpc
