// main/egress_process.h — `caissond egress`: the way out of one `caisson run`, in a process of its
// own.
//
// It is handed one socket. The first message on it brings the rules and the sockets inside the
// sandbox; "report" asks what happened so far; its end is ours. Everything else is the gate's.
#pragma once

namespace caisson::server {

// The exit status.
[[nodiscard]] int egress_process();

}  // namespace caisson::server
