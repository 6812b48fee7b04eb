#include "doors/rest/states.h"

#include <fmt/format.h>

#include "base/id.h"
#include "doors/rest/file_wishes.h"
#include "doors/rest/text.h"

namespace caisson::rest {

namespace {

constexpr std::string_view kSandbox = "sandbox:";
constexpr std::string_view kSnapshot = "snapshot:";
constexpr std::string_view kImage = "image:";

std::unexpected<Error> no_state(std::string_view field, std::string_view text) {
  return bad_field(std::string(field),
                   fmt::format("{} is \"{}\": want sandbox:ID, snapshot:ID or image:REFERENCE",
                               field, cut_utf8(text, 128)));
}

std::string with(std::string_view prefix, std::string_view rest) {
  return std::string(prefix) + std::string(rest);
}

}  // namespace

std::string snapshot_id(Call& call, std::string_view word) {
  const auto found = call.fleet().get_snapshot(call.caller, word);
  return found ? found->id : std::string(word);
}

Result<std::string> state_word(Call& call, std::string_view field, std::string_view text) {
  for (const std::string_view prefix : {kSandbox, kSnapshot, kImage}) {
    if (!text.starts_with(prefix)) continue;
    const std::string_view rest = text.substr(prefix.size());
    if (rest.empty() || text.size() > kStateBytesMax) return no_state(field, text);
    if (prefix == kSnapshot) return with(prefix, snapshot_id(call, rest));
    if (prefix == kSandbox) (void)TRY(call.fleet().get(call.caller, rest));
    return std::string(text);
  }
  if (text.empty() || text.size() > kStateBytesMax) return no_state(field, text);
  if (call.fleet().get(call.caller, text)) return with(kSandbox, text);
  if (const auto found = call.fleet().get_snapshot(call.caller, text)) {
    return with(kSnapshot, found->id);
  }
  if (SandboxId::parse(text)) return failure(Errc::NotFound, "no such sandbox or snapshot");
  return no_state(field, text);
}

}  // namespace caisson::rest
