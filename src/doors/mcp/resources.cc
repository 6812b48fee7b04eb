#include "doors/mcp/resources.h"

#include <fmt/format.h>

#include "base/base64.h"
#include "base/id.h"
#include "control/tools.h"
#include "doors/shared/json_text.h"
#include "doors/shared/text.h"

namespace caisson::mcp {

namespace json = boost::json;

namespace {

constexpr std::string_view kScheme = "caisson://";
constexpr std::string_view kJson = "application/json";
constexpr std::size_t kUriBytesMax = 8192;
constexpr double kMebibyte = 1024.0 * 1024.0;

json::object resource(std::string uri, std::string name, std::string_view text) {
  return json::object{{"uri", std::move(uri)},
                      {"name", std::move(name)},
                      {"description", text},
                      {"mimeType", kJson}};
}

json::object text_content(std::string_view uri, std::string_view type, std::string text) {
  return json::object{{"uri", uri}, {"mimeType", type}, {"text", std::move(text)}};
}

json::object policy_json(const control::SandboxView& view) {
  json::array tools;
  for (const std::string& tool : view.tools) tools.emplace_back(tool);
  const auto number = [](std::uint64_t value, double unit) {
    return value == 0 ? json::value(nullptr) : json::value(static_cast<double>(value) / unit);
  };
  const engine::Limits& limits = view.limits;
  return json::object{
      {"sandbox", view.id},
      {"image", doors::lossy_utf8(view.image)},
      {"tools", std::move(tools)},
      {"root", view.root == engine::RootMode::Writable ? "writable" : "read_only"},
      {"workspace", control::kWorkspace},
      {"network", json::object{{"mode", view.network.empty() ? "none" : "allowlist"},
                               {"rules", control::to_json(view.network)}}},
      {"limits", json::object{{"cpu", number(limits.cpu_millis, 1000)},
                              {"memory_mb", number(limits.memory_bytes, kMebibyte)},
                              {"processes", number(limits.processes, 1)},
                              {"disk_mb", number(limits.disk_bytes, kMebibyte)}}},
      {"expires_at",
       view.expires ? json::value(store::to_rfc3339(*view.expires)) : json::value(nullptr)}};
}

json::object budget_json(const control::SandboxView& view, const control::UsageView& usage) {
  const control::BudgetWish& budget = view.budget;
  return json::object{
      {"sandbox", view.id},
      {"tokens", usage.tokens},
      {"max_tokens", budget.max_tokens ? json::value(*budget.max_tokens) : json::value(nullptr)},
      {"cost_usd", usage.cost_usd},
      {"max_cost_usd",
       budget.max_cost_usd ? json::value(*budget.max_cost_usd) : json::value(nullptr)},
      {"on_exceed", budget.stop.value_or(false) ? "stop" : "refuse"},
      {"wall_seconds", usage.wall_seconds},
      {"execs", usage.execs}};
}

awaitable<Result<std::string>> read_bytes(Call& call, const ResourceName& name) {
  auto download = co_await call.fleet().read_file(call.caller, name.sandbox, name.path, {});
  if (!download) co_return std::unexpected(download.error());
  if (download->length > kResourceBytesMax)
    co_return failure(Errc::TooLarge,
                      fmt::format("the file has {} bytes, and at most {} are shown: use the tool "
                                  "read for a part of it",
                                  download->length, kResourceBytesMax));
  std::string out;
  for (;;) {
    const auto piece = co_await download->bytes->next();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) co_return out;
    out.append(reinterpret_cast<const char*>(piece->data()), piece->size());
    if (out.size() > kResourceBytesMax)
      co_return failure(Errc::TooLarge, "the file grows while it is read");
  }
}

awaitable<Result<json::object>> folder_content(Call& call, const ResourceName& name,
                                               std::string uri) {
  const auto files = co_await call.fleet().list_files(call.caller, name.sandbox, name.path, false);
  if (!files) co_return std::unexpected(files.error());
  json::array entries;
  for (const control::FileView& file : *files) {
    if (entries.size() >= 1000) break;
    entries.push_back(json::object{{"name", doors::lossy_utf8(file.entry.name)},
                                   {"type", control::to_string(file.entry.type)},
                                   {"size", file.entry.size}});
  }
  json::object listing{{"path", doors::lossy_utf8(name.path)}, {"entries", std::move(entries)}};
  co_return text_content(uri, kJson, doors::json_text(listing));
}

awaitable<Result<json::object>> file_content(Call& call, const ResourceName& name,
                                             std::string uri) {
  const auto entry = co_await call.fleet().stat(call.caller, name.sandbox, name.path, true);
  if (!entry) co_return std::unexpected(entry.error());
  if (entry->entry.type == wire::EntryType::Folder)
    co_return co_await folder_content(call, name, std::move(uri));
  auto room = co_await call.held->resize(call.held->bytes() + 4 * kResourceBytesMax);
  if (!room) co_return std::unexpected(room.error());
  auto bytes = co_await read_bytes(call, name);
  if (!bytes) co_return std::unexpected(bytes.error());
  if (doors::is_utf8(*bytes)) co_return text_content(uri, "text/plain", *std::move(bytes));
  co_return json::object{
      {"uri", uri}, {"mimeType", "application/octet-stream"}, {"blob", to_base64(*bytes)}};
}

awaitable<Result<json::object>> content_of(Call& call, ResourceName name, std::string uri) {
  if (name.kind == ResourceName::Kind::Files)
    co_return co_await file_content(call, name, std::move(uri));
  const auto view = call.fleet().get(call.caller, name.sandbox);
  if (!view) co_return std::unexpected(view.error());
  if (name.kind == ResourceName::Kind::Policy)
    co_return text_content(uri, kJson, doors::json_text(policy_json(*view)));
  const auto usage = co_await call.fleet().usage(call.caller, name.sandbox);
  if (!usage) co_return std::unexpected(usage.error());
  co_return text_content(uri, kJson, doors::json_text(budget_json(*view, *usage)));
}

RpcError resource_error(const Call& call, const Error& error, std::string_view uri) {
  if (error.code == Errc::Internal || error.code == Errc::Protocol) return internal(call, error);
  const bool missing = error.code == Errc::NotFound;
  RpcError out;
  out.code = missing && call.era == Era::Legacy ? kLegacyResourceNotFound : kInvalidParams;
  out.message = doors::lossy_utf8(error.message);
  out.data = json::object{{"uri", uri}};
  return out;
}

}  // namespace

std::string policy_uri(std::string_view sandbox) {
  return fmt::format("{}{}/policy", kScheme, sandbox);
}

std::optional<ResourceName> parse_uri(std::string_view uri) {
  if (uri.size() > kUriBytesMax || !uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const std::size_t slash = std::min(uri.find('/'), uri.size());
  ResourceName name;
  name.sandbox = uri.substr(0, slash);
  uri.remove_prefix(slash);
  if (!SandboxId::parse(name.sandbox)) return std::nullopt;
  if (uri == "/policy") return name;
  name.kind = ResourceName::Kind::Budget;
  if (uri == "/budget") return name;
  constexpr std::string_view kFiles = "/files";
  if (!uri.starts_with(kFiles)) return std::nullopt;
  uri.remove_prefix(kFiles.size());
  const auto path = http::percent_decode(uri);
  if (!path || (!path->empty() && !path->starts_with('/'))) return std::nullopt;
  name.kind = ResourceName::Kind::Files;
  name.path = path->empty() ? "/" : *path;
  return name;
}

json::object list_resources(Call& call) {
  json::array out;
  std::size_t shown = 0;
  for (const control::SandboxView& view : call.fleet().list(call.caller)) {
    if (view.state == control::State::Ended) continue;
    if (++shown > kListedSandboxesMax) break;
    const std::string base = fmt::format("{}{}", kScheme, view.id);
    const std::string who = view.name.empty() ? view.id : doors::lossy_utf8(view.name);
    out.push_back(resource(base + "/policy", "policy of " + who,
                           "What this sandbox may do: network, limits, tools, expiry."));
    out.push_back(resource(base + "/budget", "budget of " + who,
                           "What its calls of language models have cost, and may cost."));
    out.push_back(resource(base + "/files/workspace", "files of " + who, "The folder /workspace."));
  }
  return json::object{{"resources", std::move(out)}};
}

json::object list_templates() {
  const auto shape = [](std::string_view uri, std::string_view name, std::string_view text) {
    return json::object{{"uriTemplate", uri}, {"name", name}, {"description", text}};
  };
  return json::object{
      {"resourceTemplates",
       json::array{
           shape("caisson://{sandbox}/files{+path}", "file",
                 "A file or folder of a sandbox, by its absolute path, of at most 512 KiB."),
           shape("caisson://{sandbox}/policy", "policy", "What a sandbox may do."),
           shape("caisson://{sandbox}/budget", "budget",
                 "What its calls of language models have cost, and may cost.")}}};
}

awaitable<Answer> read_resource(Call& call) {
  const json::value* uri = call.message.params.if_contains("uri");
  if (uri == nullptr || !uri->is_string())
    co_return std::unexpected(RpcError{kInvalidParams, "params.uri is missing", {}, 400});
  const std::string text(uri->get_string());
  auto name = parse_uri(text);
  if (!name) {
    const Error none{Errc::NotFound,
                     "Resource not found: want caisson://SANDBOX/files/PATH, …/policy or …/budget",
                     0};
    co_return std::unexpected(resource_error(call, none, doors::cut_utf8(text, 256)));
  }
  auto content = co_await content_of(call, *std::move(name), text);
  if (!content) co_return std::unexpected(resource_error(call, content.error(), text));
  json::object out;
  out["contents"] = json::array{*std::move(content)};
  co_return out;
}

}  // namespace caisson::mcp
