#include "doors/mcp/message.h"

#include <fmt/format.h>

namespace caisson::mcp {

namespace json = boost::json;

namespace {

bool is_id(const json::value& value) {
  if (value.is_string()) return value.get_string().size() <= kIdBytesMax;
  return value.is_int64() || value.is_uint64();
}

Fault invalid(std::string message, const json::object& object) {
  const json::value* id = object.if_contains("id");
  return {kInvalidRequest, std::move(message), id != nullptr && is_id(*id) ? *id : json::value()};
}

}  // namespace

Read message_of(json::value value) {
  if (value.is_array())
    return std::unexpected(Fault{kInvalidRequest,
                                 "a batch of messages is not part of the revisions spoken here: "
                                 "send them one by one",
                                 {}});
  if (!value.is_object())
    return std::unexpected(Fault{kInvalidRequest, "a message is a JSON object", {}});
  json::object& object = value.get_object();
  const json::value* version = object.if_contains("jsonrpc");
  if (version == nullptr || !version->is_string() || version->get_string() != "2.0")
    return std::unexpected(invalid("jsonrpc is not \"2.0\"", object));
  Message out;
  const json::value* id = object.if_contains("id");
  const json::value* method = object.if_contains("method");
  if (method == nullptr) {
    if (object.contains("result") || object.contains("error")) {
      out.kind = Message::Kind::Response;
      return out;
    }
    return std::unexpected(invalid("method is missing", object));
  }
  if (!method->is_string() || method->get_string().empty() ||
      method->get_string().size() > kMethodBytesMax)
    return std::unexpected(
        invalid(fmt::format("method is no text of 1 to {} bytes", kMethodBytesMax), object));
  out.method = method->get_string();
  if (id != nullptr) {
    if (!is_id(*id))
      return std::unexpected(invalid(
          fmt::format("id is neither a whole number nor a text of at most {} bytes", kIdBytesMax),
          object));
    out.kind = Message::Kind::Request;
    out.id = *id;
  }
  if (json::value* params = object.if_contains("params"); params != nullptr) {
    if (!params->is_object()) return std::unexpected(invalid("params is not an object", object));
    out.params = std::move(params->get_object());
  }
  return out;
}

void MessageReader::feed(std::string_view bytes) {
  if (status_ == doors::JsonInput::Status::Good) status_ = input_.feed(bytes);
}

Read MessageReader::finish() {
  using Status = doors::JsonInput::Status;
  if (status_ == Status::Good) status_ = input_.finish();
  switch (status_) {
    case Status::Good:
      return message_of(input_.take());
    case Status::Wrong:
      return std::unexpected(
          Fault{kParseError, fmt::format("{} at character {}", input_.reason(), input_.at()), {}});
    case Status::Unreadable:
      return std::unexpected(
          Fault{kParseError, "the message is not UTF-8, or nested too deeply", {}});
    case Status::TooLarge:
      break;
  }
  return std::unexpected(
      Fault{kInvalidRequest,
            fmt::format("the message is too large: at most {} bytes of text, and {} around it; "
                        "write a large file in parts",
                        kTextBytesMax, kOtherBytesMax),
            {}});
}

}  // namespace caisson::mcp
