// doors/sandboxer/routes.h — the one table of routes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/http.h"
#include "store/store.h"

namespace caisson::sandboxer {

using boost::asio::awaitable;

struct Call;

enum class Who : std::uint8_t {
  Anybody,
  Known,   // a token or a login
  Viewer,  // the proxy: of a public sandbox anybody
};

struct Route {
  http::Method method{};     // Other: any of the proxy's
  std::string_view pattern;  // "/sandboxes/{id}/files/{path}", where {path} is all that follows
  store::Scope need{};
  Who who = Who::Known;
  bool json = false;       // it has a body of JSON
  bool websocket = false;  // and nothing else
  awaitable<Result<void>> (*handler)(Call& call) = nullptr;
};

struct Match {
  enum class Kind : std::uint8_t { Found, NotFound, OtherMethod, OtherSlash };
  Kind kind = Kind::NotFound;
  const Route* route = nullptr;
  std::string allow{};      // of OtherMethod
  std::string id{};         // decoded
  std::string second{};     // {final} or {execution}, decoded
  std::string_view tail{};  // {path}, as it was sent; a part of the request's own path
};

// `path` is still encoded, and outlives the match.
[[nodiscard]] Match find_route(http::Method method, std::string_view path, bool websocket);
// Whether a user is needed before anything is said about a path.
[[nodiscard]] bool is_protected(std::string_view path);

awaitable<Result<void>> list_sandboxes(Call& call);
awaitable<Result<void>> create_sandbox(Call& call);
awaitable<Result<void>> show_sandbox(Call& call);
awaitable<Result<void>> change_sandbox(Call& call);
awaitable<Result<void>> delete_sandbox(Call& call);
awaitable<Result<void>> fork_sandbox(Call& call);
awaitable<Result<void>> coalesce_sandboxes(Call& call);
awaitable<Result<void>> pause_sandbox(Call& call);
awaitable<Result<void>> unpause_sandbox(Call& call);
awaitable<Result<void>> execute_code(Call& call);
awaitable<Result<void>> show_logs(Call& call);
awaitable<Result<void>> show_tree(Call& call);
awaitable<Result<void>> show_execution_logs(Call& call);
awaitable<Result<void>> show_executions(Call& call);
awaitable<Result<void>> show_execution(Call& call);
awaitable<Result<void>> show_file(Call& call);
awaitable<Result<void>> upload_files(Call& call);
awaitable<Result<void>> attach_terminal(Call& call);
awaitable<Result<void>> pass_on(Call& call);
awaitable<Result<void>> stream_events(Call& call);
awaitable<Result<void>> log_in(Call& call);
awaitable<Result<void>> log_out(Call& call);
awaitable<Result<void>> show_me(Call& call);
awaitable<Result<void>> refuse_github(Call& call);

}  // namespace caisson::sandboxer
