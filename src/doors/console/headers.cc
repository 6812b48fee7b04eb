#include "doors/console/headers.h"

#include <fmt/format.h>

namespace caisson::console {

namespace {

// Trusted types make the browser refuse text as markup or code, even where the page's own script
// would hand it over.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

// Copying is all that the console wants of a browser.
constexpr std::string_view kPermissions =
    "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), "
    "fullscreen=(), geolocation=(), gyroscope=(), hid=(), magnetometer=(), microphone=(), "
    "midi=(), payment=(), picture-in-picture=(), publickey-credentials-get=(), "
    "screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()";

}  // namespace

std::string content_policy(const ConsoleOptions& options) {
  std::string policy(kPolicy);
  if (options.vhost.empty()) return policy;
  policy += fmt::format("; frame-src {}://*.{}", options.scheme, options.vhost);
  if (options.port != 0) policy += fmt::format(":{}", options.port);
  return policy;
}

void set_safe_headers(http::Exchange& exchange, const std::string& policy) {
  exchange.set("Content-Security-Policy", policy);
  exchange.set("X-Content-Type-Options", "nosniff");
  exchange.set("X-Frame-Options", "DENY");
  exchange.set("Referrer-Policy", "no-referrer");
  exchange.set("Cross-Origin-Opener-Policy", "same-origin");
  exchange.set("Cross-Origin-Resource-Policy", "same-origin");
  exchange.set("Permissions-Policy", kPermissions);
}

}  // namespace caisson::console
