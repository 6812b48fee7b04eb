// doors/shared/request_line.h — what a door tells the log about one request, and what it calls the
// scope that a token lacks.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/clock.h"
#include "control/caller.h"
#include "http/http.h"
#include "store/store.h"

namespace caisson::doors {

inline constexpr std::size_t kLogPathBytesMax = 1024;

struct RequestLine {
  std::string_view request_id;
  std::string_view method;
  std::string_view path;
  unsigned status = 0;
  microseconds took{0};
  std::string_view peer;
  std::string_view actor;
  std::string_view tenant;
};

// Both outlive the line; the exchange has been answered.
[[nodiscard]] RequestLine request_line(const http::Exchange& exchange,
                                       const control::Caller& caller, TimePoint begun);

[[nodiscard]] std::string_view scope_word(store::Scope scope) noexcept;

}  // namespace caisson::doors
