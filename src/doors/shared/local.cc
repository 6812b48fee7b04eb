#include "doors/shared/local.h"

#include <string_view>

namespace caisson::doors {
namespace {

bool is_loopback_host(std::string_view host) {
  if (host.starts_with('[')) return host == "[::1]" || host.starts_with("[::1]:");
  const std::string_view name = host.substr(0, host.find(':'));
  return name == "localhost" || name == "127.0.0.1";
}

}  // namespace

bool is_local(const http::Request& request) {
  return request.peer.local &&
         (request.peer.address == "unix" || is_loopback_host(request.field("Host")));
}

}  // namespace caisson::doors
