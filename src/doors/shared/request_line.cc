#include "doors/shared/request_line.h"

namespace caisson::doors {

RequestLine request_line(const http::Exchange& exchange, const control::Caller& caller,
                         TimePoint begun) {
  const http::Request& request = exchange.request();
  RequestLine line;
  line.request_id = request.id;
  line.method = request.method_text;
  line.path = std::string_view(request.path).substr(0, kLogPathBytesMax);
  line.status = exchange.status();
  line.took = duration_cast<microseconds>(Clock::now() - begun);
  line.peer = request.peer.address;
  line.actor = caller.actor;
  line.tenant = caller.tenant;
  return line;
}

std::string_view scope_word(store::Scope scope) noexcept {
  switch (scope) {
    case store::Scope::Read:
      return "read";
    case store::Scope::Use:
      return "use";
    case store::Scope::Create:
      return "create";
    case store::Scope::Admin:
      break;
  }
  return "admin";
}

}  // namespace caisson::doors
