// doors/mcp/message.h — one message of JSON-RPC 2.0, from bytes of a client: a request, a
// notification or a response. Everything is judged and bounded here.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "doors/shared/json_input.h"

namespace caisson::mcp {

inline constexpr std::size_t kTextBytesMax = 12UL * 1024 * 1024;  // all strings of a message
inline constexpr std::size_t kOtherBytesMax = 1024UL * 1024;      // what stands between them
inline constexpr std::size_t kIdBytesMax = 256;
inline constexpr std::size_t kMethodBytesMax = 128;

inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternalError = -32603;

struct Message {
  enum class Kind : std::uint8_t { Request, Notification, Response };
  Kind kind = Kind::Notification;
  boost::json::value id;  // of a request: a text or a whole number
  std::string method;
  boost::json::object params;
};

struct Fault {
  int code = kInternalError;
  std::string message;
  boost::json::value id;  // null where it could not be read
};

using Read = std::expected<Message, Fault>;

[[nodiscard]] Read message_of(boost::json::value value);

// Bytes as they come, then finish(). After a fault the rest is taken and forgotten.
class MessageReader {
 public:
  void feed(std::string_view bytes);
  [[nodiscard]] Read finish();
  [[nodiscard]] bool empty() const noexcept { return input_.empty(); }
  [[nodiscard]] std::size_t held() const noexcept { return input_.held(); }

 private:
  doors::JsonInput input_{{kTextBytesMax, kOtherBytesMax, true}};
  doors::JsonInput::Status status_ = doors::JsonInput::Status::Good;
};

}  // namespace caisson::mcp
