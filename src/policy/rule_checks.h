// policy/rule_checks.h — what the words of one egress rule may be. The parser of capability files
// asks word by word, to name the line; validate() asks for a rule that was built by hand.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/capability.h"

namespace caisson::policy {

// One value each; the message does not name the field.
[[nodiscard]] Result<std::string> check_method(std::string_view method);
[[nodiscard]] Result<std::string> check_path_prefix(std::string_view prefix);
// An IP address in its usual spelling. Whether it may be granted, the egress rooms say.
[[nodiscard]] Result<std::string> check_address_text(std::string_view address);
// A field that a request may carry from end to end. Those that frame a message, name its host or
// belong to one hop are not a credential's place: with them a rule could change where a request
// goes or where it ends.
[[nodiscard]] Result<std::string> check_header_name(std::string_view name);
[[nodiscard]] Result<std::string> check_secret_name(std::string_view name);
// What stands before the secret in the header's value: "Bearer ".
[[nodiscard]] Result<std::string> check_header_prefix(std::string_view prefix);

// A whole rule; its domain becomes canonical. The message begins with the field.
[[nodiscard]] Result<void> check_rule(NetworkEgressRule& rule);
// No header twice, and no more than the limit.
[[nodiscard]] Result<void> check_injections(const std::vector<HeaderInjection>& inject);

}  // namespace caisson::policy
