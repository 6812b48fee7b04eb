// doors/rest/states.h — words for states of files: "sandbox:ID", "snapshot:ID", "image:REFERENCE".
//
// A snapshot may be named instead, and an id alone is looked up among the caller's sandboxes and
// snapshots; control gets the full word. Nothing of another tenant is found here.
#pragma once

#include <string>
#include <string_view>

#include "doors/rest/call.h"

namespace caisson::rest {

[[nodiscard]] Result<std::string> state_word(Call& call, std::string_view field,
                                             std::string_view text);
// The id of a snapshot by id or name; the word itself when there is none, so that control says so.
[[nodiscard]] std::string snapshot_id(Call& call, std::string_view word);

}  // namespace caisson::rest
