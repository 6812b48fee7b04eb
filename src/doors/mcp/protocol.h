// doors/mcp/protocol.h — which revisions are spoken, what a request of the newer ones must say
// about itself, and the shapes of what is sent back.
#pragma once

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "doors/mcp/message.h"
#include "http/http.h"

namespace caisson::mcp {

inline constexpr std::string_view kModernVersion = "2026-07-28";
// By `initialize`; the newest first.
inline constexpr std::array<std::string_view, 2> kLegacyVersions{"2025-11-25", "2025-06-18"};

inline constexpr int kHeaderMismatch = -32020;
inline constexpr int kUnsupportedVersion = -32022;
inline constexpr int kLegacyResourceNotFound = -32002;

inline constexpr std::string_view kMetaVersion = "io.modelcontextprotocol/protocolVersion";
inline constexpr std::string_view kMetaCapabilities = "io.modelcontextprotocol/clientCapabilities";
inline constexpr std::string_view kMetaServer = "io.modelcontextprotocol/serverInfo";
inline constexpr std::string_view kMetaSubscription = "io.modelcontextprotocol/subscriptionId";

enum class Era : std::uint8_t { Modern, Legacy };

struct RpcError {
  int code = kInternalError;
  std::string message;
  boost::json::value data{};
  unsigned status = 200;  // of HTTP, in the newer era
};

using Answer = std::expected<boost::json::object, RpcError>;

[[nodiscard]] bool is_legacy(std::string_view version) noexcept;
// What `initialize` is answered with: the wanted one where it is spoken, else our newest of them.
[[nodiscard]] std::string_view negotiate(std::string_view wanted) noexcept;
[[nodiscard]] boost::json::array supported_versions();

// What stands in params._meta under a name; nothing when there is none.
[[nodiscard]] const boost::json::value* meta_of(const Message& message, std::string_view name);
// It names its revision, so it is judged by itself.
[[nodiscard]] bool says_version(const Message& message);
// Nothing, or why a request of the newer era is refused; with HTTP its headers must agree.
[[nodiscard]] std::optional<RpcError> check_modern(const Message& message,
                                                   const http::Request* request);
// "=?base64?…?=" is decoded; nothing when it is malformed.
[[nodiscard]] std::optional<std::string> header_value(std::string_view value);

[[nodiscard]] boost::json::object server_info(std::string_view version);
[[nodiscard]] boost::json::object capabilities();
[[nodiscard]] std::string_view instructions(Era era) noexcept;

// One line each, without a line feed.
[[nodiscard]] std::string result_text(const boost::json::value& id,
                                      const boost::json::object& result);
[[nodiscard]] std::string error_text(const boost::json::value& id, const RpcError& error);
[[nodiscard]] std::string notification_text(std::string_view method,
                                            const boost::json::object& params);

}  // namespace caisson::mcp
