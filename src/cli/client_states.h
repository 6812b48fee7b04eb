// cli/client_states.h — states of files as people write them, and changes between them as text.
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "cli/client_session.h"

namespace caisson::cli {

// "sandbox:NAME", "snapshot:NAME", "image:REFERENCE"; a word alone is a sandbox, by id or name, or
// else a snapshot. What comes out is for the server.
[[nodiscard]] Result<std::string> state_of(const Session& session, const std::string& word);

// One line for each of `changes`: "modified  /workspace/main.py".
[[nodiscard]] std::string changes_text(const boost::json::array& changes);

// What stands in the way of a merge, by the server's refusal; empty for any other answer.
[[nodiscard]] std::string conflicts_text(const Answer& answer);

}  // namespace caisson::cli
