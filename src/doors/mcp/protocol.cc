#include "doors/mcp/protocol.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/base64.h"
#include "doors/shared/json_text.h"
#include "doors/shared/text.h"

namespace caisson::mcp {

namespace json = boost::json;

namespace {

constexpr std::string_view kSentinel = "=?base64?";
constexpr std::string_view kSentinelEnd = "?=";
constexpr std::size_t kShownBytesMax = 128;

RpcError mismatch(std::string message) { return {kHeaderMismatch, std::move(message), {}, 400}; }

std::string shown(std::string_view text) {
  return doors::lossy_utf8(doors::cut_utf8(text, kShownBytesMax));
}

// The field of the body that Mcp-Name mirrors; empty when there is none.
std::string_view named_by(std::string_view method) {
  if (method == "tools/call" || method == "prompts/get") return "name";
  if (method == "resources/read") return "uri";
  return {};
}

std::optional<RpcError> check_headers(const Message& message, std::string_view version,
                                      const http::Request& request) {
  const auto agree = [&](std::string_view name, std::string_view want) -> std::optional<RpcError> {
    if (request.count(name) != 1)
      return mismatch(fmt::format("the header {} must be there once", name));
    const auto value = header_value(request.field(name));
    if (value && *value == want) return std::nullopt;
    return mismatch(fmt::format("the header {} is '{}', and the body says '{}'", name,
                                shown(request.field(name)), shown(want)));
  };
  if (auto wrong = agree("MCP-Protocol-Version", version)) return wrong;
  if (auto wrong = agree("Mcp-Method", message.method)) return wrong;
  const std::string_view field = named_by(message.method);
  if (field.empty()) return std::nullopt;
  const json::value* name = message.params.if_contains(field);
  if (name == nullptr || !name->is_string())
    return RpcError{kInvalidParams, fmt::format("params.{} is missing", field), {}, 400};
  return agree("Mcp-Name", name->get_string());
}

}  // namespace

bool is_legacy(std::string_view version) noexcept {
  return std::ranges::find(kLegacyVersions, version) != kLegacyVersions.end();
}

std::string_view negotiate(std::string_view wanted) noexcept {
  return is_legacy(wanted) ? wanted : kLegacyVersions.front();
}

json::array supported_versions() {
  json::array out{kModernVersion};
  for (const std::string_view version : kLegacyVersions) out.emplace_back(version);
  return out;
}

const json::value* meta_of(const Message& message, std::string_view name) {
  const json::value* meta = message.params.if_contains("_meta");
  return meta != nullptr && meta->is_object() ? meta->get_object().if_contains(name) : nullptr;
}

bool says_version(const Message& message) { return meta_of(message, kMetaVersion) != nullptr; }

std::optional<RpcError> check_modern(const Message& message, const http::Request* request) {
  const json::value* version = meta_of(message, kMetaVersion);
  if (version == nullptr || !version->is_string())
    return RpcError{kInvalidParams, fmt::format("params._meta has no {}", kMetaVersion), {}, 400};
  const std::string_view wanted = version->get_string();
  if (request != nullptr) {
    if (auto wrong = check_headers(message, wanted, *request)) return wrong;
  }
  if (wanted != kModernVersion) {
    json::object data{{"supported", supported_versions()}, {"requested", shown(wanted)}};
    const std::string_view how = is_legacy(wanted) ? "; this one begins with initialize" : "";
    return RpcError{kUnsupportedVersion, fmt::format("Unsupported protocol version{}", how),
                    std::move(data), 400};
  }
  const json::value* capable = meta_of(message, kMetaCapabilities);
  if (capable == nullptr || !capable->is_object())
    return RpcError{
        kInvalidParams, fmt::format("params._meta has no {}", kMetaCapabilities), {}, 400};
  return std::nullopt;
}

std::optional<std::string> header_value(std::string_view value) {
  if (value.size() < kSentinel.size() + kSentinelEnd.size() || !value.starts_with(kSentinel) ||
      !value.ends_with(kSentinelEnd))
    return std::string(value);
  value.remove_prefix(kSentinel.size());
  value.remove_suffix(kSentinelEnd.size());
  auto decoded = from_base64(value);
  if (!decoded) return std::nullopt;
  return *std::move(decoded);
}

json::object server_info(std::string_view version) {
  return json::object{{"name", "caisson"},
                      {"title", "caisson: sandboxes for untrusted code"},
                      {"version", version}};
}

json::object capabilities() {
  return json::object{{"tools", json::object()},
                      {"resources", json::object{{"listChanged", true}, {"subscribe", false}}}};
}

std::string_view instructions(Era era) noexcept {
  if (era == Era::Legacy)
    return "Commands and files are inside a sandbox of this session: a Linux machine of its own, "
           "with /workspace as its folder and no network unless its policy names hosts. It is made "
           "by the first call and ends with the session. Use run for one command, start and poll "
           "for one that goes on, checkpoint before something that may have to be undone.";
  return "Commands and files are inside sandboxes: Linux machines of their own, each with "
         "/workspace as its folder and no network unless its policy names hosts. The first run, "
         "run_code, start or write without `sandbox` makes one and names it in its answer; pass "
         "that name in every later call. Use run for one command, start and poll for one that "
         "goes on, checkpoint before something that may have to be undone.";
}

std::string result_text(const json::value& id, const json::object& result) {
  std::string out = R"({"jsonrpc":"2.0","id":)";
  out += doors::json_text(id);
  out += R"(,"result":)";
  out += doors::json_text(result);
  out += '}';
  return out;
}

std::string error_text(const json::value& id, const RpcError& error) {
  json::object inner{{"code", error.code}, {"message", error.message}};
  if (!error.data.is_null()) inner["data"] = error.data;
  std::string out = R"({"jsonrpc":"2.0")";
  if (!id.is_null()) {
    out += R"(,"id":)";
    out += doors::json_text(id);
  }
  out += R"(,"error":)";
  out += doors::json_text(inner);
  out += '}';
  return out;
}

std::string notification_text(std::string_view method, const json::object& params) {
  json::object out{{"jsonrpc", "2.0"}, {"method", method}, {"params", params}};
  return doors::json_text(out);
}

}  // namespace caisson::mcp
