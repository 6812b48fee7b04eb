// doors/rest/views.h — control's values as JSON. What a guest wrote is made valid UTF-8 first.
#pragma once

#include <boost/json/object.hpp>

#include "control/access.h"
#include "control/fleet.h"
#include "store/store.h"

namespace caisson::rest {

[[nodiscard]] boost::json::object to_json(const control::SandboxView& view);
[[nodiscard]] boost::json::object to_json(const control::UsageView& view);
[[nodiscard]] boost::json::object to_json(const control::ProcessView& view);
[[nodiscard]] boost::json::object to_json(const control::FileView& view);
[[nodiscard]] boost::json::object to_json(const control::ExecOutcome& outcome, bool base64);
[[nodiscard]] boost::json::object to_json(const control::Event& event);
[[nodiscard]] boost::json::object to_json(const engine::WatchEvent& event);
[[nodiscard]] boost::json::object to_json(const store::AuditRow& row);
[[nodiscard]] boost::json::object to_json(const store::Verdict& verdict);
[[nodiscard]] boost::json::object to_json(const store::TokenRecord& token);

// Output as an event: its bytes are base64, whatever they are.
[[nodiscard]] boost::json::object to_json(const control::OutputChunk& chunk);
// How a process ended, for the last event of its output.
[[nodiscard]] boost::json::object exit_json(const control::ProcessView& view);

}  // namespace caisson::rest
