#include "control/records.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "control/record_members.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr int kVersion = 1;

json::object budget_json(const KeptBudget& budget) {
  json::object out{{"stop", budget.stop},
                   {"used_tokens", budget.used_tokens},
                   {"used_nano_usd", budget.used_nano_usd}};
  if (budget.max_tokens) out["max_tokens"] = *budget.max_tokens;
  if (budget.max_cost_nano_usd) out["max_cost_nano_usd"] = *budget.max_cost_nano_usd;
  return out;
}

const json::object* inner(const json::object& object, std::string_view name) {
  const json::value* at = object.if_contains(name);
  return at != nullptr && at->is_object() ? &at->get_object() : nullptr;
}

// Only what is not as usual: older records have none of it.
void add_proxy(const KeptSpec& spec, json::object& out) {
  if (!spec.proxy.variables) out["no_proxy_variables"] = true;
  if (spec.proxy.place)
    out["proxy"] = {{"host", spec.proxy.place->host}, {"port", spec.proxy.place->port}};
  if (!spec.proxy.words) return;
  const TokenWords& said = *spec.proxy.words;
  json::object words{{"session_id", said.session_id},
                     {"allowed_hosts", array_of(said.allowed_hosts)}};
  if (said.tenant_id) words["tenant_id"] = *said.tenant_id;
  json::object tokens;
  for (const KeptToken& one : spec.proxy_tokens) tokens[one.digest] = one.expires;
  words["tokens"] = std::move(tokens);
  out["token_words"] = std::move(words);
}

Result<void> read_proxy(const json::object& object, KeptSpec& spec) {
  Members members(object);
  spec.proxy.variables = !members.flag("no_proxy_variables");
  if (!members.wrong().empty()) return failure(Errc::Internal, "'" + members.wrong() + "'");
  if (const auto* place = inner(object, "proxy")) {
    Members within(*place);
    const auto port = within.count("port");
    if (port == 0 || port > 65535) within.fail("port");
    spec.proxy.place = ProxyPlace{within.text("host"), static_cast<std::uint16_t>(port)};
    if (!within.wrong().empty()) return failure(Errc::Internal, "'proxy." + within.wrong() + "'");
  }
  const auto* words = inner(object, "token_words");
  if (words == nullptr) return {};
  Members within(*words);
  TokenWords said{within.text("session_id"), std::nullopt, within.texts("allowed_hosts")};
  if (words->contains("tenant_id")) said.tenant_id = within.text("tenant_id");
  spec.proxy.words = std::move(said);
  if (const auto* tokens = inner(*words, "tokens")) {
    Members all(*tokens);
    for (const auto& [digest, expires] : *tokens)
      spec.proxy_tokens.push_back({digest, all.whole(digest).value_or(0)});
    if (!all.wrong().empty()) within.fail("tokens");
  }
  if (!within.wrong().empty())
    return failure(Errc::Internal, "'token_words." + within.wrong() + "'");
  return {};
}

json::object limits_json(const engine::Limits& limits) {
  return {{"memory_bytes", limits.memory_bytes}, {"processes", limits.processes},
          {"cpu_millis", limits.cpu_millis},     {"cpu_time_us", limits.cpu_time_us},
          {"life_us", limits.life_us},           {"disk_bytes", limits.disk_bytes},
          {"disk_files", limits.disk_files},     {"open_files", limits.open_files}};
}

engine::Limits read_limits(Members members) {
  engine::Limits out;
  out.memory_bytes = members.count("memory_bytes");
  out.processes = static_cast<std::uint32_t>(members.count("processes"));
  out.cpu_millis = static_cast<std::uint32_t>(members.count("cpu_millis"));
  out.cpu_time_us = members.count("cpu_time_us");
  out.life_us = members.count("life_us");
  out.disk_bytes = members.count("disk_bytes");
  out.disk_files = members.count("disk_files");
  out.open_files = static_cast<std::uint32_t>(members.count("open_files"));
  return out;
}

void add_ports(const KeptSpec& spec, json::object& out) {
  if (!spec.ports_inside) return;
  json::array ports;
  for (const std::uint16_t one : *spec.ports_inside) ports.emplace_back(one);
  out["ports_inside"] = std::move(ports);
}

Result<void> read_ports(const json::object& object, KeptSpec& spec) {
  const json::value* ports = object.if_contains("ports_inside");
  if (ports == nullptr) return {};
  if (!ports->is_array()) return failure(Errc::Internal, "'ports_inside'");
  spec.ports_inside.emplace();
  for (const json::value& one : ports->get_array()) {
    if (!one.is_int64() || one.get_int64() <= 0 || one.get_int64() > UINT16_MAX)
      return failure(Errc::Internal, "'ports_inside'");
    spec.ports_inside->push_back(static_cast<std::uint16_t>(one.get_int64()));
  }
  return {};
}

void add_interpreters(const KeptSpec& spec, json::object& out) {
  json::object all;
  for (const auto& [language, wish] : spec.interpreters)
    all[to_string(language)] =
        json::object{{"warm", wish.warm}, {"imports", array_of(wish.imports)}};
  if (!all.empty()) out["interpreters"] = std::move(all);
  json::array processes;
  for (const std::uint32_t one : spec.interpreter_processes) processes.emplace_back(one);
  if (!processes.empty()) out["interpreter_processes"] = std::move(processes);
}

Result<void> read_interpreters(const json::object& object, KeptSpec& spec) {
  if (const auto* all = inner(object, "interpreters")) {
    for (const auto& [name, value] : *all) {
      const Language language = TRY(parse_language(name, "interpreters"));
      if (!value.is_object()) return failure(Errc::Internal, "'interpreters'");
      Members members(value.get_object());
      spec.interpreters[language] = {members.flag("warm"), members.texts("imports")};
      if (!members.wrong().empty()) return failure(Errc::Internal, "'interpreters'");
    }
  }
  if (const json::value* processes = object.if_contains("interpreter_processes")) {
    if (!processes->is_array()) return failure(Errc::Internal, "'interpreter_processes'");
    for (const json::value& one : processes->get_array()) {
      if (!one.is_int64() || one.get_int64() <= 0 || one.get_int64() > UINT32_MAX)
        return failure(Errc::Internal, "'interpreter_processes'");
      spec.interpreter_processes.push_back(static_cast<std::uint32_t>(one.get_int64()));
    }
  }
  return {};
}

// Only what is not as in every sandbox of the first version: its records are read, too.
void add_files(const KeptSpec& spec, json::object& out) {
  if (spec.gid != spec.uid) out["gid"] = spec.gid;
  if (spec.root_capabilities) out["root_capabilities"] = true;
  if (spec.hostname != "caisson") out["hostname"] = spec.hostname;
  if (!spec.folders.empty()) out["folders"] = array_of(spec.folders);
  json::object aliases;
  for (const engine::Alias& alias : spec.aliases) aliases[alias.at] = alias.of;
  if (!aliases.empty()) out["aliases"] = std::move(aliases);
  if (spec.tier != policy::SandboxTier::Native) out["tier"] = engine::tier_name(spec.tier);
  if (spec.storage == engine::Storage::Disk) out["storage"] = "disk";
  if (spec.persistent) out["persistent"] = true;
  if (spec.paused) out["paused"] = true;
  if (spec.lived_us != 0) out["lived_us"] = spec.lived_us;
  if (spec.cpu_used_us != 0) out["cpu_used_us"] = spec.cpu_used_us;
  if (spec.checkpoint == Checkpoints::EachCall) out["checkpoint"] = "each_call";
  if (!spec.parent.empty()) out["parent"] = spec.parent;
  if (!spec.head.empty()) out["head"] = spec.head;
  if (!spec.payer.empty()) out["payer"] = spec.payer;
  if (spec.stack != engine::LayerStack{}) out["stack"] = to_json(spec.stack);
  if (spec.base_layers != 0) out["base_layers"] = spec.base_layers;
  if (spec.defaults != ImageDefaults{}) out["defaults"] = to_json(spec.defaults);
  if (spec.limits) out["limits"] = limits_json(*spec.limits);
  if (!spec.hibernated.empty()) out["hibernated"] = spec.hibernated;
  if (spec.expires != 0) out["expires"] = spec.expires;
  json::array volumes;
  for (const VolumeUse& use : spec.volumes) volumes.push_back(to_json(use));
  if (!volumes.empty()) out["volumes"] = std::move(volumes);
  add_ports(spec, out);
  add_interpreters(spec, out);
}

Result<void> read_files(const json::object& object, KeptSpec& spec) {
  Members members(object);
  spec.gid = object.contains("gid") ? static_cast<std::uint32_t>(members.count("gid")) : spec.uid;
  spec.root_capabilities = members.flag("root_capabilities");
  if (object.contains("hostname")) spec.hostname = members.text("hostname");
  spec.folders = members.maybe_texts("folders");
  if (object.contains("aliases")) {
    for (auto& [at, of] : members.map("aliases")) spec.aliases.push_back({at, of});
  }
  if (object.contains("tier")) spec.tier = TRY(policy::parse_sandbox_tier(members.text("tier")));
  if (members.maybe_text("storage") == "disk") spec.storage = engine::Storage::Disk;
  spec.persistent = members.flag("persistent");
  spec.paused = members.flag("paused");
  spec.lived_us = members.count("lived_us");
  spec.cpu_used_us = members.count("cpu_used_us");
  if (members.maybe_text("checkpoint") == "each_call") spec.checkpoint = Checkpoints::EachCall;
  spec.parent = members.maybe_text("parent");
  spec.head = members.maybe_text("head");
  spec.payer = members.maybe_text("payer");
  spec.hibernated = members.maybe_text("hibernated");
  spec.expires = members.whole("expires").value_or(0);
  spec.base_layers = members.count("base_layers");
  if (const auto* stack = inner(object, "stack")) spec.stack = TRY(read_stack(*stack));
  if (const auto* defaults = inner(object, "defaults"))
    spec.defaults = TRY(read_defaults(*defaults));
  if (const auto* limits = inner(object, "limits")) spec.limits = read_limits(Members(*limits));
  if (const json::value* volumes = object.if_contains("volumes"); volumes != nullptr) {
    if (!volumes->is_array()) return failure(Errc::Internal, "'volumes'");
    for (const json::value& one : volumes->get_array()) {
      if (!one.is_object()) return failure(Errc::Internal, "'volumes'");
      spec.volumes.push_back(TRY(read_volume_use(one.get_object())));
    }
  }
  TRY(read_ports(object, spec));
  TRY(read_interpreters(object, spec));
  if (spec.base_layers > spec.stack.layers.size()) members.fail("base_layers");
  if (!members.wrong().empty()) return failure(Errc::Internal, "'" + members.wrong() + "'");
  return {};
}

}  // namespace

std::string limits_text(const engine::Limits& limits) {
  return json::serialize(limits_json(limits));
}

Result<engine::Limits> parse_limits(std::string_view text) {
  boost::system::error_code wrong;
  const json::value value = json::parse(text, wrong);
  if (wrong || !value.is_object()) return failure(Errc::Internal, "limits");
  return read_limits(Members(value.get_object()));
}

std::string to_json(const KeptSpec& spec) {
  json::object labels;
  for (const auto& [name, value] : spec.labels) labels[name] = value;
  json::object out{{"version", kVersion},
                   {"name", spec.name},
                   {"profile", spec.profile},
                   {"image", spec.image},
                   {"tools", array_of(spec.tools)},
                   {"labels", std::move(labels)},
                   {"environment", array_of(spec.environment)},
                   {"workdir", spec.workdir},
                   {"root", spec.root == engine::RootMode::Writable ? "writable" : "read_only"},
                   {"uid", spec.uid}};
  if (spec.idle_seconds) out["idle_seconds"] = *spec.idle_seconds;
  if (spec.rest_seconds) out["rest_seconds"] = *spec.rest_seconds;
  if (!spec.network.empty()) out["network"] = to_json(spec.network);
  if (spec.budget != KeptBudget{}) out["budget"] = budget_json(spec.budget);
  if (spec.models) out["models"] = true;
  if (spec.token) out["token"] = true;
  add_proxy(spec, out);
  add_files(spec, out);
  if (spec.authority) {
    out["authority"] = json::object{{"certificate", spec.authority->certificate},
                                    {"sealed_key", spec.authority->sealed_key},
                                    {"domains", array_of(spec.authority->domains)}};
  }
  return json::serialize(out);
}

Result<KeptSpec> parse_kept_spec(std::string_view text) {
  const auto broken = [](const std::string& why) {
    return failure(Errc::Internal, "the record of a sandbox cannot be read: " + why);
  };
  boost::system::error_code wrong;
  const json::value value = json::parse(text, wrong);
  if (wrong || !value.is_object()) return broken("no JSON object");
  Members members(value.get_object());
  if (members.number("version") != kVersion) return broken("of another version");
  KeptSpec spec;
  spec.name = members.text("name");
  spec.profile = members.text("profile");
  spec.image = members.text("image");
  spec.tools = members.texts("tools");
  spec.labels = members.map("labels");
  spec.environment = members.texts("environment");
  spec.workdir = members.text("workdir");
  spec.root =
      members.text("root") == "writable" ? engine::RootMode::Writable : engine::RootMode::ReadOnly;
  spec.idle_seconds = members.number("idle_seconds");
  spec.rest_seconds = members.number("rest_seconds");
  spec.models = members.flag("models");
  spec.token = members.flag("token");
  const double uid = members.number("uid").value_or(-1);
  if (uid < 0 || uid >= engine::kInitId) members.fail("uid");
  if (!members.wrong().empty()) return broken("'" + members.wrong() + "'");
  spec.uid = static_cast<std::uint32_t>(uid);
  if (const auto read = read_files(value.get_object(), spec); !read)
    return broken(read.error().message);
  if (const auto read = read_proxy(value.get_object(), spec); !read)
    return broken(read.error().message);
  if (const json::value* rules = value.get_object().if_contains("network")) {
    auto read = read_rules(*rules, "network");
    if (!read) return broken(read.error().message);
    spec.network = *std::move(read);
  }
  if (const json::value* kept = value.get_object().if_contains("budget")) {
    if (!kept->is_object()) return broken("'budget'");
    Members inner(kept->get_object());
    spec.budget = KeptBudget{inner.whole("max_tokens"), inner.whole("max_cost_nano_usd"),
                             inner.flag("stop"), inner.whole("used_tokens").value_or(0),
                             inner.whole("used_nano_usd").value_or(0)};
    if (!inner.wrong().empty()) return broken("'budget." + inner.wrong() + "'");
  }
  if (const json::value* kept = value.get_object().if_contains("authority")) {
    if (!kept->is_object()) return broken("'authority'");
    Members inner(kept->get_object());
    spec.authority =
        KeptAuthority{inner.text("certificate"), inner.text("sealed_key"), inner.texts("domains")};
    if (!inner.wrong().empty()) return broken("'authority." + inner.wrong() + "'");
  }
  return spec;
}

}  // namespace caisson::control
