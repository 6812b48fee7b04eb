// doors/grpc/exec_run.h — a command as Exec, ExecStream and PipInstall run it, and how its failures
// are worded there: as Python words them.
#pragma once

#include <string>
#include <string_view>

#include "doors/grpc/methods.h"

namespace caisson::grpc {

// "[Errno 2] No such file or directory: '/nope'"
[[nodiscard]] std::string errno_words(int number, std::string_view path);

// The sandbox is not there any more.
[[nodiscard]] bool is_dead(const Error& error);

// What can be said before anything runs; empty: nothing is wrong.
[[nodiscard]] std::string command_fault(std::string_view command);

// For /bin/sh -c, in `workdir` or the workspace; its end waits for whoever holds its output.
awaitable<Result<control::ExecWish>> shell_wish(Call& call, const Session& session,
                                                std::string command, std::string workdir);
// Why it was not run, or not to its end.
awaitable<std::string> failure_words(Call& call, const Session& session, Error error,
                                     std::string workdir);

// With a timeout: collected, cut to what fits into an answer.
awaitable<void> run_collected(Call& call, const Session& session, control::ExecWish wish,
                              api::ExecResponse& reply);

// Both streams, and less than the message size that a client takes when nobody told it otherwise.
inline constexpr std::size_t kOutputBytesMax = 4UL * 1024 * 1024 - 8UL * 1024;
// At most so much of both, with a last line in `err` that says what was left out.
void fit_output(std::string& out, std::string& err, std::uint64_t out_lost, std::uint64_t err_lost,
                std::size_t bytes_max = kOutputBytesMax);

}  // namespace caisson::grpc
