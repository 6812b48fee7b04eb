#include "cli/caddy_config.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "cli/cli.h"
#include "cli/client_options.h"
#include "cli/client_session.h"
#include "policy/settings/sandboxer_settings.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kWordBytesMax = 254;

bool is_only(std::string_view text, std::string_view more) {
  return !text.empty() && text.size() <= kWordBytesMax &&
         text.find_first_not_of(std::string("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789-.") +
                                std::string(more)) == std::string_view::npos;
}

Result<void> check_upstream(const std::string& upstream) {
  const std::size_t colon = upstream.rfind(':');
  std::uint16_t port = 0;
  const std::string_view digits = colon == std::string::npos
                                      ? std::string_view()
                                      : std::string_view(upstream).substr(colon + 1);
  const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (is_only(upstream, ":[]") && colon != 0 && wrong == std::errc() &&
      end == digits.data() + digits.size() && port != 0) {
    return {};
  }
  return bad_field("--upstream", fmt::format("--upstream: '{}': want ADDRESS:PORT, where the "
                                             "server listens, such as 127.0.0.1:8080",
                                             upstream));
}

Result<void> check_email(const std::string& email) {
  if (email.empty() || (is_only(email, "@_+") && email.find('@') != std::string::npos)) return {};
  return bad_field("--email",
                   fmt::format("--email: '{}': want an address such as you@example.com", email));
}

// Of both sites; its lines are within their braces.
std::string tls_lines(const CaddyWish& wish) {
  const bool on_demand = wish.certificates == Certificates::OnDemand;
  if (wish.internal && !on_demand) return "\ttls internal\n";
  if (wish.internal) return "\ttls internal {\n\t\ton_demand\n\t}\n";
  if (on_demand) return "\ttls {\n\t\ton_demand\n\t}\n";
  return "\ttls {\n"
         "\t\t# A certificate for every name needs your domain's DNS: write the module of your\n"
         "\t\t# provider here, and what it needs. Caddy must be built with that module.\n"
         "\t\tdns PROVIDER TOKEN\n"
         "\t}\n";
}

std::string global_lines(const CaddyWish& wish) {
  std::string lines;
  if (!wish.email.empty()) lines += "\temail " + wish.email + "\n";
  if (wish.certificates == Certificates::OnDemand) {
    lines += fmt::format(
        "\ton_demand_tls {{\n"
        "\t\t# The server says yes to its own name and to those of sandboxes that there are.\n"
        "\t\task http://{}/internal/ask\n"
        "\t}}\n",
        wish.upstream);
  }
  return lines.empty() ? lines : "{\n" + lines + "}\n\n";
}

}  // namespace

Result<std::string> caddy_config(const CaddyWish& wish) {
  const policy::Vhost vhost = TRY_IN("--vhost", policy::parse_vhost(wish.vhost));
  if (vhost.scheme != "https" || !is_only(vhost.name, "")) {
    return bad_field("--vhost", fmt::format("--vhost: '{}': want a name that browsers reach by "
                                            "https, such as sandbox.example.com",
                                            wish.vhost));
  }
  TRY(check_upstream(wish.upstream));
  TRY(check_email(wish.email));
  const std::string authority = policy::authority_of(vhost);
  // Host stays as it is: by it the server tells the sandboxes apart. What it streams is passed on
  // at once.
  return fmt::format(
      "# TLS in front of caisson, and of the previews of its sandboxes.\n"
      "# The server: caisson serve --listen {} --vhost {}\n"
      "{}https://{}, https://*.{} {{\n"
      "{}"
      "\treverse_proxy {} {{\n"
      "\t\tflush_interval -1\n"
      "\t}}\n"
      "}}\n",
      wish.upstream, authority, global_lines(wish), authority, authority, tls_lines(wish),
      wish.upstream);
}

int caddy_config_command(std::span<char*> args) {
  CommandLine line("Print a Caddyfile that puts TLS in front of a server with previews.");
  CaddyWish wish;
  bool wildcard = false;
  bool on_demand = false;
  if (const char* said = std::getenv("SANDBOX_VHOST")) wish.vhost = said;
  line.text("--vhost", wish.vhost, "NAME", "the domain of the previews (or SANDBOX_VHOST)");
  line.text("--upstream", wish.upstream, "ADDRESS", "where the server listens (127.0.0.1:8080)");
  line.flag("--on-demand", on_demand, "a certificate for each name, when it is first asked for");
  line.flag("--wildcard", wildcard, "one for all names: needs the domain's DNS, or --internal");
  line.flag("--internal", wish.internal, "certificates of an authority of Caddy's own");
  line.text("--email", wish.email, "ADDRESS", "for the authority that makes the certificates");
  if (const auto done = line.parse(args)) return *done;
  if (wish.vhost.empty()) {
    complain("caddy-config", "there is no domain: give --vhost, or set SANDBOX_VHOST");
    return kExitFailed;
  }
  if (wildcard && on_demand) {
    complain("caddy-config", "--wildcard and --on-demand exclude each other");
    return kExitUsage;
  }
  // Caddy's own authority asks nobody, so one certificate for all is the simpler one there.
  if (wildcard || (wish.internal && !on_demand)) wish.certificates = Certificates::Wildcard;
  const auto text = caddy_config(wish);
  if (!text) {
    complain("caddy-config", one_line(text.error().message));
    return kExitUsage;
  }
  return print_out(*text) ? kExitOk : kExitFailed;
}

}  // namespace caisson::cli
