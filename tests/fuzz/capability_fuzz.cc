// Any text is either refused with the contract's one-line error, or becomes a declaration that is
// valid, prints, and reads back as itself. The same bytes are then asked about as a URL, a path and
// a flag.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "policy/policy.h"

namespace {

using caisson::policy::CapabilityDeclaration;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_declaration(const CapabilityDeclaration& capability, std::string_view text) {
  namespace policy = caisson::policy;
  const auto valid = policy::validate(capability);
  require(valid && *valid == capability);
  require(policy::describe_json(capability).starts_with("{\"valid\": true"));
  require(!policy::describe_text(capability).empty());
  const auto again = policy::CapabilityParser::from_string(policy::capability_json(capability));
  // The JSON of a text near the size limit may be longer than the limit.
  const bool too_long = !again && again.error().message.find("too many") != std::string::npos;
  require(too_long || (again && *again == capability));

  const policy::EgressDecision decision =
      policy::check_egress(text, capability.network_egress_rules);
  require(!decision.allowed || decision.rule_index.has_value());
  const policy::FilesystemPolicy files(capability.filesystem_config);
  require(files.can_read(text) || !files.can_write(text));
}

void check_words(std::string_view text) {
  namespace policy = caisson::policy;
  const auto host = policy::canonical_host(text);
  if (host) require(policy::canonical_host(*host) == *host);
  const auto target = policy::parse_egress_target(text);
  if (target) require(policy::canonical_host(target->host) == target->host);
  const auto path = policy::clean_path(text);
  if (path) require(policy::clean_path(*path) == *path);
  const auto bytes = policy::parse_bytes(text);
  require(!bytes || bytes->value_or(1) >= 1);
  const auto duration = policy::parse_duration(text);
  require(!duration || duration->count() > 0);
  const auto rule = policy::parse_allow(text);
  require(!rule || policy::canonical_rule_domain(rule->domain) == rule->domain);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto capability = caisson::policy::CapabilityParser::from_string(text);
  if (capability) {
    check_declaration(*capability, text);
  } else {
    require(capability.error().message.starts_with("capability validation error: "));
    require(caisson::policy::describe_invalid_json(capability.error().message).size() > 2);
  }
  check_words(text);
  return 0;
}
