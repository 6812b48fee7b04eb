#include "doors/rest/views.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <cmath>

#include "base/base64.h"
#include "control/tools.h"
#include "doors/rest/file_views.h"
#include "doors/rest/text.h"
#include "guest/protocol/protocol.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

std::string_view state_name(control::State state) {
  switch (state) {
    case control::State::Creating:
      return "creating";
    case control::State::Running:
      return "running";
    case control::State::Paused:
      return "paused";
    case control::State::Hibernated:
      return "hibernated";
    case control::State::Stopped:
      return "stopped";
    case control::State::Ended:
      return "ended";
  }
  return "ended";
}

std::string_view outcome_name(store::Outcome outcome) {
  switch (outcome) {
    case store::Outcome::Allowed:
      return "allowed";
    case store::Outcome::Denied:
      return "denied";
    case store::Outcome::Failed:
      return "failed";
  }
  return "failed";
}

// A whole number where it is one: 512, not 512.0.
json::value plain_number(double value) {
  if (std::trunc(value) == value && std::abs(value) < 9e15) return static_cast<std::int64_t>(value);
  return value;
}

// A quantity in a larger unit; null where 0 means "no limit".
json::value limit_in(std::uint64_t value, double unit) {
  if (value == 0) return nullptr;
  return plain_number(static_cast<double>(value) / unit);
}

json::value time_or_null(std::optional<store::WallTime> time) {
  if (!time) return nullptr;
  return json::value(store::to_rfc3339(*time));
}

json::value number_or_null(std::optional<double> number) {
  return number ? plain_number(*number) : json::value(nullptr);
}

template <class List>
json::array texts(const List& list) {
  json::array array;
  for (const auto& text : list) array.emplace_back(valid_utf8(text));
  return array;
}

json::array scope_names(std::uint8_t scopes) {
  constexpr std::pair<store::Scope, std::string_view> kNames[] = {{store::Scope::Read, "read"},
                                                                  {store::Scope::Use, "use"},
                                                                  {store::Scope::Create, "create"},
                                                                  {store::Scope::Admin, "admin"}};
  json::array names;
  for (const auto& [scope, name] : kNames) {
    if ((scopes & static_cast<std::uint8_t>(scope)) != 0) names.emplace_back(name);
  }
  return names;
}

double milliseconds_of(microseconds time) { return static_cast<double>(time.count()) / 1000.0; }

json::object to_json(const control::BudgetWish& budget) {
  return json::object{
      {"max_tokens", budget.max_tokens ? json::value(*budget.max_tokens) : json::value(nullptr)},
      {"max_cost_usd",
       budget.max_cost_usd ? json::value(*budget.max_cost_usd) : json::value(nullptr)},
      {"on_exceed", budget.stop.value_or(false) ? "stop" : "refuse"}};
}

}  // namespace

namespace {

json::object interpreters_json(const control::InterpreterWishes& wishes) {
  json::object out;
  for (const auto& [language, wish] : wishes)
    out[control::to_string(language)] =
        json::object{{"warm", wish.warm}, {"imports", texts(wish.imports)}};
  return out;
}

}  // namespace

json::object to_json(const control::SandboxView& view) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  const engine::Limits& limits = view.limits;
  json::object limits_json{{"cpu", limit_in(limits.cpu_millis, 1000)},
                           {"memory_mb", limit_in(limits.memory_bytes, kMebibyte)},
                           {"processes", limit_in(limits.processes, 1)},
                           {"disk_mb", limit_in(limits.disk_bytes, kMebibyte)},
                           {"disk_files", limit_in(limits.disk_files, 1)},
                           {"open_files", limit_in(limits.open_files, 1)},
                           {"cpu_seconds", limit_in(limits.cpu_time_us, 1e6)},
                           {"timeout_seconds", limit_in(limits.life_us, 1e6)},
                           {"idle_seconds", number_or_null(view.idle_seconds)},
                           {"rest_seconds", number_or_null(view.rest_seconds)}};
  json::object record{{"tier", view.record.tier},
                      {"kernel", view.record.kernel},
                      {"landlock_abi", view.record.landlock_abi},
                      {"seccomp", view.record.seccomp},
                      {"groups", view.record.groups},
                      {"quota", view.record.quota},
                      {"snapshots", view.record.snapshots},
                      {"ids", view.record.ids},
                      {"network", view.record.network}};
  json::object network{{"mode", view.network.empty() ? "none" : "allowlist"},
                       {"rules", control::to_json(view.network)}};
  json::object labels;
  for (const auto& [name, value] : view.labels) labels[valid_utf8(name)] = valid_utf8(value);
  json::object filesystem;
  filesystem["root"] = view.root == engine::RootMode::Writable ? "writable" : "read_only";
  return json::object{{"id", view.id},
                      {"name", valid_utf8(view.name)},
                      {"state", state_name(view.state)},
                      {"resting", view.resting},
                      {"profile", view.profile},
                      {"image", valid_utf8(view.image)},
                      {"tier", view.record.tier},
                      {"tools", texts(view.tools)},
                      {"filesystem", std::move(filesystem)},
                      {"resource_limits", std::move(limits_json)},
                      {"user", view.uid},
                      {"root_capabilities", view.root_capabilities},
                      {"workdir", valid_utf8(view.workdir)},
                      {"hostname", valid_utf8(view.hostname)},
                      {"budget", to_json(view.budget)},
                      {"labels", std::move(labels)},
                      {"public", is_public(view)},
                      {"created_at", store::to_rfc3339(view.created)},
                      {"expires_at", time_or_null(view.expires)},
                      {"network", std::move(network)},
                      {"record", std::move(record)},
                      {"parent", view.parent},
                      {"storage", storage_name(view.storage)},
                      {"persistent", view.persistent},
                      {"checkpoint", checkpoint_name(view.checkpoint)},
                      {"volumes", to_json(view.volumes)},
                      {"interpreters", interpreters_json(view.interpreters)},
                      {"end_reason", view.end_reason}};
}

json::object to_json(const control::UsageView& view) {
  json::object network{
      {"connections", view.network.connections}, {"open", view.network.open},
      {"allowed", view.network.allowed},         {"denied", view.network.denied},
      {"bytes_up", view.network.bytes_up},       {"bytes_down", view.network.bytes_down}};
  return json::object{{"cpu_seconds", static_cast<double>(view.usage.cpu_time_us) / 1e6},
                      {"memory_bytes", view.usage.memory_bytes},
                      {"memory_peak_bytes", view.usage.memory_peak_bytes},
                      {"oom_kills", view.usage.oom_kills},
                      {"processes", view.usage.processes},
                      {"io_read_bytes", view.usage.io_read_bytes},
                      {"io_write_bytes", view.usage.io_write_bytes},
                      {"wall_seconds", view.wall_seconds},
                      {"execs", view.execs},
                      {"tokens", view.tokens},
                      {"cost_usd", view.cost_usd},
                      {"network", std::move(network)}};
}

json::object to_json(const control::ProcessView& view) {
  json::object out{{"begin", view.begin[0]}, {"end", view.end[0]}};
  json::object err{{"begin", view.begin[1]}, {"end", view.end[1]}};
  return json::object{
      {"id", view.id},
      {"pid", view.pid},
      {"running", view.running},
      {"terminal", view.terminal},
      {"command", valid_utf8(view.command)},
      {"age_seconds", view.age_seconds},
      {"stdout", std::move(out)},
      {"stderr", std::move(err)},
      {"exit_code", view.exit_code ? json::value(*view.exit_code) : json::value(nullptr)},
      {"signal", view.signal},
      {"timed_out", view.timed_out},
      {"oom_killed", view.oom_killed}};
}

json::object exit_json(const control::ProcessView& view) {
  return json::object{
      {"exit_code", view.exit_code ? json::value(*view.exit_code) : json::value(nullptr)},
      {"signal", view.signal},
      {"timed_out", view.timed_out},
      {"oom_killed", view.oom_killed}};
}

json::object to_json(const control::OutputChunk& chunk) {
  return json::object{
      {"offset", chunk.offset}, {"lost", chunk.lost}, {"data", to_base64(chunk.bytes)}};
}

json::object to_json(const control::FileView& view) {
  const engine::FileEntry& entry = view.entry;
  const std::string_view path = view.path;
  const std::string_view name =
      entry.name.empty() ? path.substr(path.rfind('/') + 1) : std::string_view(entry.name);
  json::object out{{"path", valid_utf8(path)},
                   {"name", valid_utf8(name)},
                   {"type", control::to_string(entry.type)},
                   {"size", entry.size},
                   {"mode", fmt::format("{:04o}", entry.mode & 07777U)},
                   {"uid", entry.uid},
                   {"gid", entry.gid},
                   {"modified_at", store::to_rfc3339(entry.mtime_ns / 1000)},
                   {"links", entry.links}};
  if (entry.type == wire::EntryType::Link) out["target"] = valid_utf8(entry.target);
  if (!view.etag.empty()) out["etag"] = view.etag;
  return out;
}

json::object to_json(const control::ExecOutcome& outcome, bool base64) {
  const auto encoded = [base64](const std::string& bytes) {
    return base64 ? to_base64(bytes) : valid_utf8(bytes);
  };
  return json::object{
      {"exit_code", outcome.exit_code},         {"signal", outcome.signal},
      {"stdout", encoded(outcome.out)},         {"stderr", encoded(outcome.err)},
      {"encoding", base64 ? "base64" : "text"}, {"stdout_lost_bytes", outcome.out_lost},
      {"stderr_lost_bytes", outcome.err_lost},  {"timed_out", outcome.timed_out},
      {"oom_killed", outcome.oom_killed},       {"duration_ms", milliseconds_of(outcome.wall)},
      {"cpu_ms", milliseconds_of(outcome.cpu)}, {"peak_memory_bytes", outcome.peak_rss_kib * 1024}};
}

json::object to_json(const control::Event& event) {
  return json::object{{"sequence", event.sequence},
                      {"time", store::to_rfc3339(event.time)},
                      {"type", event.type},
                      {"sandbox", event.sandbox},
                      {"data", event.data}};
}

json::object to_json(const engine::WatchEvent& event) {
  constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
      {wire::kEventCreated, "created"},  {wire::kEventChanged, "changed"},
      {wire::kEventRemoved, "removed"},  {wire::kEventMovedFrom, "moved_from"},
      {wire::kEventMovedTo, "moved_to"}, {wire::kEventOverflow, "overflow"}};
  json::array changes;
  for (const auto& [bit, name] : kNames) {
    if ((event.mask & bit) != 0) changes.emplace_back(name);
  }
  return json::object{{"changes", std::move(changes)},
                      {"path", valid_utf8(event.name)},
                      {"folder", (event.mask & wire::kEventFolder) != 0},
                      {"cookie", event.cookie}};
}

json::object to_json(const store::AuditRow& row) {
  boost::json::error_code ec;
  const json::value detail = json::parse(row.event.detail, ec);
  return json::object{{"sequence", row.sequence},
                      {"time", store::to_rfc3339(row.time)},
                      {"tenant", valid_utf8(row.event.tenant)},
                      {"actor", valid_utf8(row.event.actor)},
                      {"action", valid_utf8(row.event.action)},
                      {"sandbox", valid_utf8(row.event.sandbox)},
                      {"object", valid_utf8(row.event.object)},
                      {"outcome", outcome_name(row.event.outcome)},
                      {"detail", !ec && detail.is_object() ? detail : json::value(json::object{})},
                      {"request_id", valid_utf8(row.event.request_id)},
                      {"previous", row.previous},
                      {"hash", row.hash}};
}

json::object to_json(const store::Verdict& verdict) {
  return json::object{
      {"intact", verdict.intact},
      {"rows", verdict.rows},
      {"head", verdict.head},
      {"bad_row", verdict.bad_row ? json::value(*verdict.bad_row) : json::value(nullptr)},
      {"reason", verdict.reason}};
}

json::object to_json(const store::TokenRecord& token) {
  return json::object{{"id", token.id},
                      {"tenant", valid_utf8(token.tenant)},
                      {"label", valid_utf8(token.label)},
                      {"scopes", scope_names(token.scopes)},
                      {"created_at", store::to_rfc3339(token.created)},
                      {"expires_at", time_or_null(token.expires)},
                      {"revoked_at", time_or_null(token.revoked)},
                      {"last_used_at", time_or_null(token.last_used)},
                      {"max_sandboxes", token.max_sandboxes}};
}

}  // namespace caisson::rest
