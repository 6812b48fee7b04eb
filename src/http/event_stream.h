// http/event_stream.h — text/event-stream, line by line.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/client.h"

namespace caisson::http {

inline constexpr std::size_t kEventBytesMax = 16UL * 1024 * 1024;

class EventStream {
 public:
  using Take = std::function<bool(const ClientEvent&)>;
  // False once `take` has said so.
  [[nodiscard]] Result<bool> feed(std::string_view bytes, const Take& take);

 private:
  [[nodiscard]] bool line(std::string_view text, const Take& take);

  std::string partial_;
  bool after_cr_ = false;
  ClientEvent event_;
  bool has_data_ = false;
};

}  // namespace caisson::http
