// doors/rest/router.h — from method and path to a handler.
//
// A route is a line of the table in routes.cc. Its scope is part of the line and has no default, so
// nobody can be let in by forgetting it; so are the names of its query parameters, and others are
// refused. Patterns have literal parts, {name} for one part, and {name...} for all that follows.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/http.h"
#include "store/store.h"

namespace caisson::rest {

using boost::asio::awaitable;

struct Call;
using HandlerFunction = awaitable<Result<void>> (*)(Call&);

enum class Need : std::uint8_t { None, Read, Use, Create, Admin };
[[nodiscard]] std::string_view to_string(Need need) noexcept;

struct Route {
  http::Method method;
  Need need;
  std::string_view pattern;
  std::string_view operation;  // operationId of the contract
  std::string_view query;      // names, separated by spaces; "*": whatever the client likes
  HandlerFunction handler;
};

// The one table.
[[nodiscard]] std::span<const Route> routes() noexcept;

struct Match {
  const Route* route = nullptr;
  std::size_t index = 0;  // in the table
  std::string id;         // {id}, decoded
  std::string part;       // {pid}, {port} or {context}, decoded
  std::string tail;       // {path...}, decoded
  std::string raw_tail;   // the same as it was sent, with its leading '/' or empty
};

struct Missed {
  std::vector<http::Method> allowed;  // methods of the same path; empty: there is no such path
};

class Router {
 public:
  explicit Router(std::span<const Route> table);
  // Malformed percent-encoding is no route of ours.
  [[nodiscard]] std::expected<Match, Missed> find(http::Method method, std::string_view path) const;

 private:
  struct Compiled {
    std::vector<std::string_view> parts;
    bool has_tail = false;
  };
  [[nodiscard]] static bool matches(const Compiled& route,
                                    const std::vector<std::string_view>& parts);
  [[nodiscard]] std::optional<Match> fill(std::size_t index,
                                          const std::vector<std::string_view>& parts,
                                          std::string_view path) const;

  std::span<const Route> table_;
  std::vector<Compiled> compiled_;
};

}  // namespace caisson::rest
