// image/http_call.h — one request on a connection of its own, and its answer's head and body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/link.h"
#include "image/url.h"

namespace caisson::image {

struct CallRequest {
  std::string method = "GET";
  Url url;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
};

class HttpCall {
 public:
  // Sends the request and reads the answer's head.
  static awaitable<Result<std::unique_ptr<HttpCall>>> send(std::unique_ptr<Link> link,
                                                           CallRequest request);
  ~HttpCall();
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  [[nodiscard]] unsigned status() const noexcept;
  // The first of that name, or nothing.
  [[nodiscard]] std::string field(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> fields(std::string_view name) const;
  [[nodiscard]] std::optional<std::uint64_t> length() const;

  // The next bytes of the body; 0 at its end. One that ends too early is Gone.
  awaitable<Result<std::size_t>> read(std::span<std::byte> out);
  // All of it; TooLarge beyond the bound.
  awaitable<Result<std::string>> read_all(std::size_t bytes_max);

 private:
  struct State;
  explicit HttpCall(std::unique_ptr<State> state);
  awaitable<Result<void>> read_head();
  std::unique_ptr<State> state_;
};

}  // namespace caisson::image
