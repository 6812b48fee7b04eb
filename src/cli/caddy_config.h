// cli/caddy_config.h — a Caddyfile that puts TLS in front of a server with previews. Pure text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace caisson::cli {

enum class Certificates : std::uint8_t {
  OnDemand,  // one for each name when it is first asked for; the server says which names are good
  Wildcard,  // one for all names, which needs the domain's DNS
};

struct CaddyWish {
  std::string vhost;                        // "sandbox.example.com", also with a port
  std::string upstream = "127.0.0.1:8080";  // where the server listens
  Certificates certificates = Certificates::OnDemand;
  bool internal = false;  // an authority of Caddy's own, for machines that nobody else reaches
  std::string email{};    // for the authority; may be empty
};

// Bad input names the flag. Nothing of it can add a line to the file.
[[nodiscard]] Result<std::string> caddy_config(const CaddyWish& wish);

[[nodiscard]] int caddy_config_command(std::span<char*> args);

}  // namespace caisson::cli
