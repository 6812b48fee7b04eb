// caisson egress — what left sandboxes, and what would.
#include "policy/egress.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_audit.h"
#include "cli/client_options.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "egress/wire/decision.h"
#include "policy/capability_parser.h"
#include "policy/json_text.h"

namespace caisson::cli {
namespace {

struct TestRequest {
  std::string config;
  std::string url;
  std::string method = "GET";
  bool json = false;
};

// The path is judged where we would see it: in plain HTTP, and inside TLS where the rule looks into
// it.
std::string path_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return "/";
  const std::size_t slash = url.find('/', scheme + 3);
  return slash == std::string_view::npos ? "/" : std::string(url.substr(slash));
}

Result<egress::Verdict> judge(const TestRequest& wanted, const egress::Rules& rules) {
  const policy::EgressTarget target = TRY(policy::parse_egress_target(wanted.url));
  if (!target.port) {
    return failure(Errc::InvalidArgument,
                   "'" + wanted.url + "' names no port; write it as a URL or as host:port");
  }
  egress::Request request;
  request.identity = egress::Identity::Confirmed;
  const auto host = egress::HostName::parse(target.host);
  if (host) {
    request.host = *host;
  } else {
    request.host = host.error();
  }
  request.port = *target.port;
  const egress::HttpSeen http{wanted.method, path_of(wanted.url), std::nullopt};
  if (wanted.url.starts_with("http://")) {
    request.sight = egress::Sight::Readable;
    request.first = http;
  }
  if (wanted.url.starts_with("https://") && host) {
    // As a gate does it: the ClientHello first, and behind it the request, where a rule looks in.
    egress::TlsSeen tls;
    tls.hello.server_name = *host;
    request.sight = egress::Sight::Readable;
    request.first = std::move(tls);
    egress::Verdict verdict = egress::decide(request, rules, egress::Resolved{});
    const bool looks_in = verdict.outcome != egress::Outcome::Deny &&
                          rules.all()[*verdict.rule_index].wanted.intercepts();
    if (!looks_in) return verdict;
    request.first = http;
    request.verified = true;
  }
  return egress::decide(request, rules, egress::Resolved{});
}

// What is still looked at when a connection is really made.
std::string conditions(const TestRequest& wanted, const egress::Verdict& verdict,
                       const egress::Rules& rules) {
  const egress::Rules::Rule& rule = rules.all()[*verdict.rule_index];
  std::string out = rule.granted.empty()
                        ? "  if every address of the name is public\n"
                        : fmt::format(
                              "  if every address of the name is public, or one of the {} "
                              "that the rule grants\n",
                              rule.granted.size());
  if (wanted.url.starts_with("https://"))
    out += "  if the TLS client names that very host, in clear (SNI, no ECH)\n";
  out += fmt::format("  at most {} requests a minute\n", rule.wanted.rate_limit_per_min);
  if (rule.wanted.max_bytes != 0)
    out += fmt::format("  at most {} bytes, both ways, in the sandbox's life\n",
                       rule.wanted.max_bytes);
  return out;
}

int test(const TestRequest& wanted) {
  const auto capability = policy::CapabilityParser::from_file(wanted.config);
  if (!capability) {
    complain("egress test", capability.error().message);
    return kExitUsage;
  }
  const auto rules = egress::Rules::compile(capability->network_egress_rules);
  if (!rules) {
    complain("egress test", rules.error().message);
    return kExitUsage;
  }
  const auto verdict = judge(wanted, *rules);
  if (!verdict) {
    complain("egress test", verdict.error().message);
    return kExitUsage;
  }
  const bool allowed = verdict->outcome != egress::Outcome::Deny;
  if (wanted.json) {
    boost::json::object out{
        {"url", wanted.url},
        {"allowed", allowed},
        {"reason", egress::to_string(allowed ? egress::Reason::Allowed : verdict->reason)},
        {"message", verdict->text},
        {"rule", nullptr}};
    if (verdict->rule_index) out["rule"] = *verdict->rule_index;
    fmt::print("{}\n", policy::json_text(out));
  } else if (!allowed) {
    fmt::print("{}\n", egress::to_string(*verdict));
  } else {
    const policy::NetworkEgressRule& rule = rules->all()[*verdict->rule_index].wanted;
    fmt::print("allowed by rule {}: {}\n{}", *verdict->rule_index, policy::to_string(rule),
               conditions(wanted, *verdict, *rules));
  }
  return allowed ? kExitOk : kExitFailed;
}

}  // namespace

int egress_command(std::span<char*> args) {
  CommandLine line("What left sandboxes, and what would.");
  ClientOptions options;
  AuditRequest rows;
  TestRequest wanted;
  std::string sandbox;
  std::string outcome;
  std::uint64_t last = 20;
  CommandLine& log = line.command("log", "decisions of the server's gates, newest last");
  add_client_options(log, options, JsonFlag::Offered);
  log.word("SANDBOX", sandbox, Need::Optional, "ID", "of one sandbox, by its id");
  log.whole("-n,--rows", last, kAuditPage, "N", "how many (default 20)");
  log.flag("-f,--follow", rows.follow, "go on with what comes");
  log.choice("--outcome", outcome, {"allowed", "denied"}, "how it was decided");
  CommandLine& probe = line.command(
      "test", "which rule of a capability file would let a URL out; status 1 when none does");
  probe.text("--config", wanted.config, "FILE", "the capability file (YAML)");
  probe.text("--method", wanted.method, "METHOD", "of the request (default GET)");
  probe.flag("--json", wanted.json, "for programs");
  probe.word("URL", wanted.url, Need::Required, "URL", "https://host/path, or host:port");
  if (const auto done = line.parse(args)) return *done;
  if (probe.chosen()) {
    if (!wanted.config.empty()) return test(wanted);
    complain("egress test", "--config is missing: the capability file whose rules are asked");
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  rows.filter = "&action=egress.";
  if (!sandbox.empty()) rows.filter += "&sandbox=" + encode(sandbox);
  if (!outcome.empty()) rows.filter += "&outcome=" + outcome;
  rows.json = options.json;
  rows.last = last;
  const auto done = show_audit(*session, rows);
  return done ? kExitOk : session->fail(done.error());
}

}  // namespace caisson::cli
