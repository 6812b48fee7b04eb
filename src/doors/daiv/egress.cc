// What a policy says; its secrets are egress_secrets.cc.
#include "doors/daiv/egress.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

#include "doors/daiv/sessions.h"
#include "http/field.h"
#include "policy/host_name.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr std::string_view kHidden = "**********";

json::array below(json::array loc, json::value part) {
  loc.push_back(std::move(part));
  return loc;
}

bool has_space_or_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7F;
  });
}

class RuleReader {
 public:
  RuleReader(bool intercept_all, Egress& out, Problems& problems)
      : intercept_all_(intercept_all), out_(out), problems_(problems) {}

  void read(const json::value& value, const json::array& loc) {
    Fields fields(value, loc, problems_);
    policy::NetworkEgressRule rule;
    rule.rate_limit_per_min = policy::kRateLimitPerMinMax;  // nobody asked for a limit
    rule.domain = host(fields);
    rule.every_name = rule.domain == policy::kEveryName;
    rule.methods = methods(fields);
    const auto inject = fields.text_or_null("inject");
    // Methods are seen inside TLS only by whoever ends it.
    rule.inspect = intercept_all_ || !rule.methods.empty();
    if (inject) rule.inject.push_back({"", *inject, ""});
    out_.rules.push_back(std::move(rule));
  }

 private:
  std::string host(Fields& fields) {
    const json::value* at = fields.required("host");
    if (at == nullptr) return {};
    const auto text = read_text(*at, fields.loc("host"), problems_);
    if (!text) return {};
    const auto complain = [&](std::string_view why) {
      problems_.value_error(fields.loc("host"), why, *at);
      return std::string();
    };
    if (text->empty()) return complain("host must not be empty");
    if (has_space_or_control(*text))
      return complain("host must not contain whitespace or control characters");
    if (*text == policy::kEveryName) return *text;
    auto domain = policy::canonical_rule_domain(*text);
    if (domain) return *std::move(domain);
    return complain(
        "host is none that this server can enforce: want a name, '*.' and a name, or "
        "'*'; " +
        domain.error().message);
  }

  std::vector<std::string> methods(Fields& fields) {
    std::vector<std::string> out = fields.texts_or("methods", {"*"});
    const json::value* at = fields.find("methods");
    if (at != nullptr && at->is_array() && at->get_array().empty())
      problems_.value_error(fields.loc("methods"), "methods must not be empty", *at);
    for (std::string& method : out) {
      std::ranges::transform(method, method.begin(), [](char c) {
        return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      });
    }
    if (std::ranges::find(out, "*") != out.end()) return {};
    return out;
  }

  const bool intercept_all_;
  Egress& out_;
  Problems& problems_;
};

void read_policy(const json::value& value, const json::array& loc, Egress& out,
                 Problems& problems) {
  Fields fields(value, loc, problems);
  const bool allow = fields.choice("default", "deny", "allow") == "allow";
  const bool intercept_all = fields.choice("intercept", "all", "credentialed") == "all";
  const json::value* rules = fields.find("rules");
  if (rules != nullptr && !rules->is_array()) {
    problems.add("list_type", fields.loc("rules"), "Input should be a valid list", *rules);
    return;
  }
  const std::size_t count = rules == nullptr ? 0 : rules->get_array().size();
  if (count > policy::kEgressRulesMax) {
    problems.value_error(fields.loc("rules"),
                         fmt::format("{} rules, at most {}", count, policy::kEgressRulesMax),
                         nullptr);
    return;
  }
  RuleReader reader(intercept_all, out, problems);
  for (std::size_t i = 0; i < count; ++i)
    reader.read(rules->get_array()[i], below(fields.loc("rules"), i));
  if (count == 0 && !allow && value.is_object())
    problems.value_error(loc,
                         "egress policy permits nothing: the default is 'deny' and there are no "
                         "rules",
                         value);
  if (allow) out.rules.push_back(everywhere(intercept_all));
}

// Names of headers, by the client's name of the secret.
SecretValues read_secrets(const json::value& value, const json::array& loc, SecretValues& values,
                          Problems& problems) {
  SecretValues headers;
  if (!value.is_object()) {
    problems.add("dict_type", loc, "Input should be a valid dictionary", value);
    return headers;
  }
  if (value.get_object().size() > kSecretsOfSessionMax) {
    problems.value_error(loc, fmt::format("at most {} secrets", kSecretsOfSessionMax), nullptr);
    return headers;
  }
  for (const auto& member : value.get_object()) {
    const std::string name(member.key());
    Fields fields(member.value(), below(loc, member.key()), problems);
    const json::value* header = fields.find("header");
    headers[name] = fields.text("header");
    if (header != nullptr && header->is_string() && !http::is_field_name(headers[name]))
      problems.value_error(fields.loc("header"), "header must be a valid HTTP header name",
                           *header);
    (void)fields.text("value");
    const auto kept = values.find(name);
    constexpr std::string_view kBad("\r\n\0", 3);
    if (kept == values.end()) continue;
    if (kept->second.find_first_of(kBad) != std::string::npos)
      problems.value_error(fields.loc("value"), "value must not contain CR, LF or NUL",
                           json::value(kHidden));
    if (kept->second.empty())
      problems.value_error(fields.loc("value"), "value must not be empty", json::value(kHidden));
  }
  return headers;
}

}  // namespace

SecretValues hide_secrets(json::value* egress) {
  SecretValues out;
  json::object* object = egress == nullptr ? nullptr : egress->if_object();
  json::value* secrets = object == nullptr ? nullptr : object->if_contains("secrets");
  if (secrets == nullptr || !secrets->is_object()) return out;
  for (auto& member : secrets->get_object()) {
    json::object* one = member.value().if_object();
    json::value* value = one == nullptr ? nullptr : one->if_contains("value");
    if (value == nullptr || !value->is_string()) continue;
    out[std::string(member.key())] = std::string(value->get_string());
    *value = kHidden;
  }
  return out;
}

policy::NetworkEgressRule everywhere(bool inspect) {
  policy::NetworkEgressRule rule;
  rule.domain = policy::kEveryName;
  rule.every_name = true;
  rule.rate_limit_per_min = policy::kRateLimitPerMinMax;
  rule.inspect = inspect;
  rule.otherwise = true;
  return rule;
}

Egress read_egress(const json::value& value, SecretValues secrets, const json::array& loc,
                   Problems& problems) {
  Egress out;
  Fields fields(value, loc, problems);
  if (const json::value* policy = fields.required("policy"))
    read_policy(*policy, fields.loc("policy"), out, problems);
  SecretValues headers;
  if (const json::value* said = fields.find("secrets"))
    headers = read_secrets(*said, fields.loc("secrets"), secrets, problems);
  for (policy::NetworkEgressRule& rule : out.rules) {
    for (policy::HeaderInjection& one : rule.inject) {
      const auto header = headers.find(one.secret);
      if (header == headers.end()) {
        problems.value_error(
            loc, fmt::format("rule for '{}' injects unknown secret '{}'", rule.domain, one.secret),
            value);
        return out;  // one such complaint shows all that was sent
      }
      one.header = header->second;
      out.secrets[one.secret] = secrets[one.secret];
    }
  }
  return out;
}

namespace {

// The gate's own refusal, in a status that says that it will not pass.
std::unexpected<Error> not_enforced(Call& call, const Error& error) {
  switch (error.code) {
    case Errc::NotFound:
      return refuse(call, 404, "Session not found");
    case Errc::InvalidArgument:
    case Errc::Unsupported:
    case Errc::Denied:
      return refuse(call, 422, error.message);
    case Errc::Busy:
      return refuse(call, 503, "Egress proxy is not available: " + error.message);
    default:
      break;
  }
  if (call.options().on_failure) call.options().on_failure(call.request().id, error);
  return refuse(call, 500, "Egress proxy: failed to refresh policy into the sidecar");
}

}  // namespace

// Old or new, never a mixture: new secrets have new names, the rules change in one step, and only
// then the old secrets go. The label names both meanwhile, so that none is taken for left over.
awaitable<Result<void>> put_egress(Call& call) {
  SecretValues values = hide_secrets(&call.body.value);
  Problems problems;
  Egress egress;
  if (call.body.missing) {
    problems.missing(json::array{"body"}, nullptr);
  } else {
    egress = read_egress(call.body.value, std::move(values), json::array{"body"}, problems);
  }
  if (!problems.empty()) co_return refuse(call, problems);
  auto session = co_await enter(call, Wake::No, "Session not found");
  if (!session) co_return std::unexpected(session.error());
  const auto before = session->view.labels.find(std::string(kEgressLabel));
  if (before == session->view.labels.end())
    co_return refuse(call, 409, "Session has no egress proxy; nothing to refresh");
  const std::string old = before->second;
  auto kept = co_await keep_secrets(call.services, call.caller, egress);
  if (!kept) co_return not_enforced(call, kept.error());
  const std::string both = kept->first_part() + " " + old;
  auto told = co_await set_label(call, *session, kEgressLabel, both);
  Result<control::SandboxView> done = std::unexpected(told ? Error{} : told.error());
  if (told) {
    control::NetworkWish wish = network_wish(egress, *kept);
    done = co_await call.fleet().set_network(call.caller, call.id(), std::move(wish));
  }
  const std::string stays = done ? kept->first_part() : old;
  if (!co_await set_label(call, *session, kEgressLabel, stays)) {
    // Both stay named, and the secrets of both are kept until the session goes.
  } else {
    co_await drop_secret_names(call.services, call.caller, done ? old : kept->first_part());
  }
  if (!done) co_return not_enforced(call, done.error());
  co_return co_await answer_nothing(call);
}

}  // namespace caisson::daiv
