// cli/client_session.h — one command's conversation with a server: where it is, which sandbox is
// meant, and what to say when something fails.
#pragma once

#include <boost/json/value.hpp>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/client_options.h"
#include "cli/remote.h"

namespace caisson::cli {

inline constexpr std::size_t kIdPrefixMin = 6;

struct ClientOptions {
  std::string url;
  std::string token;
  bool json = false;
};
enum class JsonFlag : std::uint8_t { Offered, None };
void add_client_options(CommandLine& line, ClientOptions& options, JsonFlag json);

class Session {
 public:
  Session(std::string command, std::unique_ptr<Remote> remote)
      : command_(std::move(command)), remote_(std::move(remote)) {}

  // An exit status when the words were wrong; it was said then.
  [[nodiscard]] static std::expected<Session, int> open(const std::string& command,
                                                        const ClientOptions& options);

  [[nodiscard]] Remote& remote() const noexcept { return *remote_; }

  // A body as the server sent it; its refusal as an error.
  [[nodiscard]] Result<std::string> text(std::string_view method, const std::string& target,
                                         const std::optional<boost::json::value>& body = {}) const;
  [[nodiscard]] Result<boost::json::value> json(
      std::string_view method, const std::string& target,
      const std::optional<boost::json::value>& body = {}) const;

  // The id behind an id, a name or an unambiguous beginning of an id.
  [[nodiscard]] Result<std::string> resolve(const std::string& word) const;

  // Says it in one line; the exit status.
  [[nodiscard]] int fail(const Error& error) const;

 private:
  std::string command_;
  std::unique_ptr<Remote> remote_;
};

// Which of the listed sandboxes `word` means.
[[nodiscard]] Result<std::string> pick_sandbox(const boost::json::value& listing,
                                               const std::string& word);

// One line for people: no control character, whoever made the text.
[[nodiscard]] std::string one_line(std::string_view text);
[[nodiscard]] int exit_status_of(const Error& error) noexcept;

// Writes all of it to standard output; Gone when nobody reads any more.
[[nodiscard]] Result<void> print_out(std::string_view text);

}  // namespace caisson::cli
