// cli/client.h — the commands that speak to a server. Each is a few lines: its options, one or two
// calls of client_session.h, and a table of client_text.h or the server's own JSON. Streams of
// bytes are in client_stream.h (exec, shell), copies in client_copy.cc and client_tar*.h. Never
// here: what a server decides, or how a sandbox is made.
#pragma once

#include <span>

namespace caisson::cli {

inline constexpr int kExitUnreachable = 69;  // EX_UNAVAILABLE: no server answers

// args[0] is the command's own name.
[[nodiscard]] int ls_command(std::span<char*> args);
[[nodiscard]] int create_command(std::span<char*> args);
[[nodiscard]] int exec_command(std::span<char*> args);
[[nodiscard]] int shell_command(std::span<char*> args);
[[nodiscard]] int cp_command(std::span<char*> args);
[[nodiscard]] int logs_command(std::span<char*> args);
[[nodiscard]] int ps_command(std::span<char*> args);
[[nodiscard]] int kill_command(std::span<char*> args);
[[nodiscard]] int rm_command(std::span<char*> args);
[[nodiscard]] int pause_command(std::span<char*> args);
[[nodiscard]] int resume_command(std::span<char*> args);
[[nodiscard]] int hibernate_command(std::span<char*> args);
[[nodiscard]] int stop_command(std::span<char*> args);
[[nodiscard]] int start_command(std::span<char*> args);
[[nodiscard]] int image_command(std::span<char*> args);
[[nodiscard]] int snapshot_command(std::span<char*> args);
[[nodiscard]] int fork_command(std::span<char*> args);
[[nodiscard]] int promote_command(std::span<char*> args);
int undo_command(std::span<char*> args);
[[nodiscard]] int diff_command(std::span<char*> args);
[[nodiscard]] int merge_command(std::span<char*> args);
[[nodiscard]] int volume_command(std::span<char*> args);
[[nodiscard]] int storage_command(std::span<char*> args);
[[nodiscard]] int events_command(std::span<char*> args);
[[nodiscard]] int top_command(std::span<char*> args);
[[nodiscard]] int audit_command(std::span<char*> args);
[[nodiscard]] int egress_command(std::span<char*> args);
[[nodiscard]] int token_command(std::span<char*> args);
[[nodiscard]] int user_command(std::span<char*> args);
[[nodiscard]] int secret_command(std::span<char*> args);
[[nodiscard]] int mcp_command(std::span<char*> args);
[[nodiscard]] int config_command(std::span<char*> args);

}  // namespace caisson::cli
