// doors/daiv/routes.h — the one table of routes. A path ends in a slash or it does not; the other
// form is sent there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "doors/daiv/body.h"
#include "http/http.h"
#include "store/store.h"

namespace caisson::daiv {

struct Call;

struct Route {
  http::Method method{};
  std::string_view pattern;  // "/session/{id}/"
  store::Scope need{};       // of a token of the server's own
  bool open = false;         // nobody needs a key
  bool json = false;         // it has a body, which is judged before the key
  BodyShape shape{};
  awaitable<Result<void>> (*handler)(Call& call) = nullptr;
};

struct Match {
  enum class Kind : std::uint8_t { Found, NotFound, OtherMethod, OtherSlash };
  Kind kind = Kind::NotFound;
  const Route* route = nullptr;  // of OtherMethod: the first with that path
  std::string id{};
};

// `path` is without the prefix, still encoded.
[[nodiscard]] Match find_route(http::Method method, std::string_view path);

awaitable<Result<void>> start_session(Call& call);
awaitable<Result<void>> run_commands(Call& call);
awaitable<Result<void>> show_session(Call& call);
awaitable<Result<void>> close_session(Call& call);
awaitable<Result<void>> seed_session(Call& call);
awaitable<Result<void>> put_egress(Call& call);
awaitable<Result<void>> fs_ls(Call& call);
awaitable<Result<void>> fs_read(Call& call);
awaitable<Result<void>> fs_grep(Call& call);
awaitable<Result<void>> fs_glob(Call& call);
awaitable<Result<void>> fs_write(Call& call);
awaitable<Result<void>> fs_edit(Call& call);
awaitable<Result<void>> fs_delete(Call& call);
awaitable<Result<void>> show_health(Call& call);
awaitable<Result<void>> show_version(Call& call);

}  // namespace caisson::daiv
