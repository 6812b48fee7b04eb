// doors/preview/name.h — names of preview hosts, and what is a path of one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "doors/preview/preview.h"

namespace caisson::preview {

// A Host field without its port, when there is one that could be.
[[nodiscard]] std::optional<std::string_view> host_name(std::string_view host);

// "8080-NAME.VHOST", or "NAME.VHOST" without a port.
[[nodiscard]] std::string make_host(const Name& name, std::string_view vhost);
// "https://HOST", with the port that browsers need.
[[nodiscard]] std::string make_origin(std::string_view host, const PreviewOptions& options);

// May a browser be sent there, on the same host? A path that begins with '/', and would not be
// taken for the name of another host; nothing of kOwnPath.
[[nodiscard]] bool is_local_path(std::string_view path);

// For a value of a query: letters, digits and "-._~" stay.
[[nodiscard]] std::string percent_encode(std::string_view text);

}  // namespace caisson::preview
