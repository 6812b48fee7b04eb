// doors/preview/page.h — answers of the door's own: a small page for people, JSON for programs.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/http.h"

namespace caisson::preview {

using boost::asio::awaitable;

struct Refusal {
  unsigned status = 500;
  std::string code;     // "NotFound"
  std::string message;  // one sentence
  unsigned retry_seconds = 0;
  bool reloads = false;  // the page looks again by itself
};
[[nodiscard]] Refusal refusal_of(const Error& error, std::string_view request_id);

// Whether a person's browser asks for a page: such a one is led to the login.
[[nodiscard]] bool is_navigation(const http::Request& request);

awaitable<void> answer_refusal(http::Exchange& exchange, Refusal refusal);
awaitable<void> answer_redirect(http::Exchange& exchange, unsigned status, std::string location);

}  // namespace caisson::preview
