// main/server_log.h — the server's log: one line each on standard error, as text or as JSON.
// Whatever comes from a client or a guest is quoted and cut here, and nowhere else; tokens never
// get here.
#pragma once

#include <memory>
#include <string_view>

#include "doors/rest/rest.h"
#include "policy/settings/settings.h"

namespace caisson::server {

class ServerLog final : public rest::Log {
 public:
  explicit ServerLog(const policy::LoggingSettings& settings);
  ~ServerLog() override;
  ServerLog(const ServerLog&) = delete;
  ServerLog& operator=(const ServerLog&) = delete;

  void apply(const policy::LoggingSettings& settings);
  void say(policy::LogLevel level, std::string_view message);
  void request(const rest::RequestLine& line) override;
  void failed(std::string_view request_id, const Error& error) override;

 private:
  struct Sink;
  std::unique_ptr<Sink> sink_;
};

// Printable ASCII stays; the rest, quotes and backslashes are escaped as in JSON. At most `max`
// bytes of the text, then "…".
[[nodiscard]] std::string quoted(std::string_view text, std::size_t max = 512);

}  // namespace caisson::server
