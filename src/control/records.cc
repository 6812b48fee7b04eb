#include "control/records.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr int kVersion = 1;

json::object to_json(const KeptBudget& budget) {
  json::object out{{"stop", budget.stop},
                   {"used_tokens", budget.used_tokens},
                   {"used_nano_usd", budget.used_nano_usd}};
  if (budget.max_tokens) out["max_tokens"] = *budget.max_tokens;
  if (budget.max_cost_nano_usd) out["max_cost_nano_usd"] = *budget.max_cost_nano_usd;
  return out;
}

json::array array_of(const std::vector<std::string>& texts) {
  json::array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

// Reads one member after the other; the first that is not what it should be is remembered.
class Members {
 public:
  explicit Members(const json::object& object) : object_(object) {}

  std::string text(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_string()) return fail(name), "";
    return std::string(at->get_string());
  }
  std::vector<std::string> texts(std::string_view name) {
    std::vector<std::string> out;
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_array()) return fail(name), out;
    for (const json::value& one : at->get_array()) {
      if (!one.is_string()) return fail(name), out;
      out.emplace_back(one.get_string());
    }
    return out;
  }
  std::map<std::string, std::string> map(std::string_view name) {
    std::map<std::string, std::string> out;
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_object()) return fail(name), out;
    for (const auto& [key, value] : at->get_object()) {
      if (!value.is_string()) return fail(name), out;
      out.emplace(key, value.get_string());
    }
    return out;
  }
  std::optional<std::int64_t> whole(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || at->is_null()) return std::nullopt;
    boost::system::error_code wrong;
    const auto value = at->to_number<std::int64_t>(wrong);
    if (wrong) return fail(name), std::nullopt;
    return value;
  }
  bool flag(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr) return false;
    if (!at->is_bool()) return fail(name), false;
    return at->get_bool();
  }
  std::optional<double> number(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || at->is_null()) return std::nullopt;
    boost::system::error_code wrong;
    const double value = at->to_number<double>(wrong);
    if (wrong) return fail(name), std::nullopt;
    return value;
  }

  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  void fail(std::string_view name) {
    if (wrong_.empty()) wrong_ = name;
  }

 private:
  const json::object& object_;
  std::string wrong_;
};

}  // namespace

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
  if (!spec.network.empty()) out["network"] = to_json(spec.network);
  if (spec.budget != KeptBudget{}) out["budget"] = to_json(spec.budget);
  if (spec.models) out["models"] = true;
  if (spec.token) out["token"] = true;
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
  spec.models = members.flag("models");
  spec.token = members.flag("token");
  const double uid = members.number("uid").value_or(-1);
  if (uid < 0 || uid >= engine::kInitId) members.fail("uid");
  if (!members.wrong().empty()) return broken("'" + members.wrong() + "'");
  spec.uid = static_cast<std::uint32_t>(uid);
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
