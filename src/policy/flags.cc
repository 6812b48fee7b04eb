#include "policy/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "policy/host_name.h"
#include "policy/wording.h"

namespace caisson::policy {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024;
constexpr std::array<Unit, 14> kByteUnits = {{
    {"", 1},
    {"b", 1},
    {"k", kKi},
    {"kb", kKi},
    {"kib", kKi},
    {"m", kKi* kKi},
    {"mb", kKi* kKi},
    {"mib", kKi* kKi},
    {"g", kKi* kKi* kKi},
    {"gb", kKi* kKi* kKi},
    {"gib", kKi* kKi* kKi},
    {"t", kKi* kKi* kKi* kKi},
    {"tb", kKi* kKi* kKi* kKi},
    {"tib", kKi* kKi* kKi* kKi},
}};

constexpr std::array<Unit, 6> kTimeUnits = {{
    {"", 1},
    {"ms", 1e-3},
    {"s", 1},
    {"m", 60},
    {"h", 3600},
    {"d", 86400},
}};

// Digits with at most one point, then a unit of the table; the product.
template <std::size_t N>
std::optional<double> parse_quantity(std::string_view text, const std::array<Unit, N>& units) {
  const std::size_t length = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, length);
  if (number.empty() || !is_digit(number.front()) || !is_digit(number.back())) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  const auto unit = std::ranges::find(units, lower(text.substr(length)), &Unit::name);
  if (unit == units.end()) return std::nullopt;
  return value * unit->factor;
}

}  // namespace

Result<std::optional<std::uint64_t>> parse_bytes(std::string_view text) {
  if (text == "unlimited") return std::optional<std::uint64_t>();
  const std::optional<double> bytes = parse_quantity(text, kByteUnits);
  if (!bytes) {
    return failure(Errc::InvalidArgument,
                   fmt::format("size {}: want a number with a unit such as 512m, 1g or 64MiB, or "
                               "unlimited",
                               in_quotes(text)));
  }
  if (*bytes < 1 || *bytes > static_cast<double>(kFlagBytesMax)) {
    return failure(
        Errc::InvalidArgument,
        fmt::format("size {}: must be from 1 byte to 1024t, or unlimited", in_quotes(text)));
  }
  return std::optional<std::uint64_t>(static_cast<std::uint64_t>(std::llround(*bytes)));
}

Result<nanoseconds> parse_duration(std::string_view text) {
  const std::optional<double> value = parse_quantity(text, kTimeUnits);
  if (!value) {
    return failure(Errc::InvalidArgument,
                   fmt::format("duration {}: want a number with a unit such as 30s, 2m or 250ms",
                               in_quotes(text)));
  }
  if (*value < kFractionMin || *value > static_cast<double>(kFlagDurationMax.count())) {
    return failure(
        Errc::InvalidArgument,
        fmt::format("duration {}: must be greater than 0 and at most 3650d", in_quotes(text)));
  }
  return nanoseconds(std::llround(*value * 1e9));
}

Result<NetworkEgressRule> parse_allow(std::string_view text) {
  if (text.find('/') != std::string_view::npos) {
    return failure(Errc::InvalidArgument,
                   fmt::format("{}: want HOST or HOST:PORT, not a URL", in_quotes(text)));
  }
  NetworkEgressRule rule;
  std::string_view host = text;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos && !text.starts_with('[')) {
    rule.ports.push_back(TRY(parse_port(text.substr(colon + 1))));
    host = text.substr(0, colon);
  }
  rule.domain = TRY(canonical_rule_domain(host));
  return rule;
}

Result<void> is_command_acceptable(std::string_view argv0) {
  if (argv0.empty()) return failure(Errc::InvalidArgument, "the command is empty");
  const std::size_t at = argv0.find_first_of(";|&$`\n");
  if (at != std::string_view::npos) {
    const std::string name = argv0[at] == '\n' ? "a newline" : fmt::format("'{}'", argv0[at]);
    return failure(Errc::InvalidArgument,
                   fmt::format("command {} has the shell metacharacter {}; to use a shell, run "
                               "sh -c '...'",
                               in_quotes(argv0), name));
  }
  if (argv0.find('\0') != std::string_view::npos) {
    return failure(Errc::InvalidArgument,
                   fmt::format("command {} has a NUL byte", in_quotes(argv0)));
  }
  return {};
}

}  // namespace caisson::policy
