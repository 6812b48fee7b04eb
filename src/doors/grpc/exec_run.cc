#include "doors/grpc/exec_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace caisson::grpc {
namespace {

// One argument of a program, as the kernel takes it: with its end it has 128 KiB.
constexpr std::size_t kArgumentBytesMax = 128UL * 1024 - 1;
constexpr std::size_t kNoticeBytesMax = 256;

// The head of a command's output, as much as can be sent and as the caller's budget has room for.
// It is heard as it comes: a command whose end is collected inside would need a buffer there that
// is as large as any answer, and a session would run but a few of them at once.
class Head {
 public:
  explicit Head(doors::Budget::Hold& hold) : hold_(hold) {}

  awaitable<Result<void>> take(bool error, std::string_view bytes) {
    std::string& kept = error ? err : out;
    std::uint64_t& lost = error ? err_lost : out_lost;
    const std::size_t most =
        lost > 0 ? 0 : kOutputBytesMax - std::min(kOutputBytesMax, kept.size());
    std::size_t fits = std::min(most, bytes.size());
    // Twice: its text stands beside it later.
    if (fits > 0 && !hold_.overdraw(hold_.bytes() + 2 * fits)) fits = 0;
    kept.append(bytes.substr(0, fits));
    lost += bytes.size() - fits;
    co_return Result<void>{};
  }

  std::string out;
  std::string err;
  std::uint64_t out_lost = 0;
  std::uint64_t err_lost = 0;

 private:
  doors::Budget::Hold& hold_;
};

std::string system_words(int number) {
  char text[128] = {};
  return strerror_r(number, text, sizeof(text));
}

}  // namespace

std::string errno_words(int number, std::string_view path) {
  return fmt::format("[Errno {}] {}: {}", number, system_words(number), doors::python_repr(path));
}

bool is_dead(const Error& error) {
  return error.code == Errc::Gone || error.code == Errc::LauncherGone ||
         (error.code == Errc::NotFound && error.sys_errno == 0);
}

std::string command_fault(std::string_view command) {
  if (command.find('\0') != std::string_view::npos) return "embedded null byte";
  if (command.size() > kArgumentBytesMax) return errno_words(E2BIG, "/bin/sh");
  return {};
}

awaitable<Result<control::ExecWish>> shell_wish(Call& call, const Session& session,
                                                std::string command, std::string workdir) {
  control::ExecWish wish;
  wish.argv = {"/bin/sh", "-c", std::move(command)};
  wish.hold = true;
  if (workdir.empty()) {
    wish.workdir = kWorkspace;
    co_return wish;
  }
  // Where ".." leads depends on links: only the sandbox knows.
  if (workdir.find("..") != std::string::npos) {
    auto resolved = co_await call.fleet().resolve_path(call.caller, session.sandbox, workdir);
    if (!resolved) co_return std::unexpected(resolved.error());
    workdir = *std::move(resolved);
  }
  wish.workdir = workdir.starts_with('/') ? workdir : std::string(kWorkspace) + "/" + workdir;
  co_return wish;
}

awaitable<std::string> failure_words(Call& call, const Session& session, Error error,
                                     std::string workdir) {
  if (is_dead(error)) co_return std::string(kDeadSandbox);
  if (error.code == Errc::Internal && call.options().on_failure)
    call.options().on_failure(call.request().id, error);
  if (error.sys_errno == 0) co_return error.message;
  // The shell is there in every image that has one: most likely it is the folder.
  if (!workdir.empty()) {
    if (!workdir.starts_with('/')) workdir = std::string(kWorkspace) + "/" + workdir;
    const auto folder =
        co_await call.fleet().stat(call.caller, session.sandbox, workdir, /*follow=*/true);
    if (!folder && folder.error().sys_errno != 0)
      co_return errno_words(folder.error().sys_errno, workdir);
    if (folder && folder->entry.type != wire::EntryType::Folder)
      co_return errno_words(ENOTDIR, workdir);
    if (folder && error.sys_errno == EACCES) co_return errno_words(EACCES, workdir);
  }
  co_return errno_words(error.sys_errno, "/bin/sh");
}

void fit_output(std::string& out, std::string& err, std::uint64_t out_lost, std::uint64_t err_lost,
                std::size_t bytes_max) {
  if (out_lost == 0 && err_lost == 0 && out.size() + err.size() <= bytes_max) return;
  const std::size_t room = bytes_max - std::min(bytes_max, kNoticeBytesMax);
  // A quarter is standard error's, and what the other one leaves.
  const std::size_t for_error =
      std::min(err.size(), std::max(room / 4, room - std::min(room, out.size())));
  const auto cut = [](std::string& text, std::size_t most, std::uint64_t& lost) {
    const std::size_t kept = doors::cut_utf8(text, most).size();
    lost += text.size() - kept;
    text.resize(kept);
  };
  cut(err, for_error, err_lost);
  cut(out, room - err.size(), out_lost);
  if (!err.empty() && !err.ends_with('\n')) err += '\n';
  err += fmt::format("[output was cut: {} bytes of stdout and {} of stderr are not shown]\n",
                     out_lost, err_lost);
}

awaitable<void> run_collected(Call& call, const Session& session, control::ExecWish wish,
                              api::ExecResponse& reply) {
  const std::string workdir = wish.workdir.value_or("");
  Head head(call.hold());
  wish.sink = [&head](bool error, std::string_view bytes) { return head.take(error, bytes); };
  auto done = co_await call.fleet().exec(call.caller, session.sandbox, std::move(wish));
  reply.set_exit_code(-1);
  if (!done) {
    reply.set_stderr(co_await failure_words(call, session, done.error(), workdir));
    co_return;
  }
  if (done->timed_out && !call.options().keep_partial_output) {
    reply.set_stderr("Command timed out");
    reply.set_timed_out(true);
    co_return;
  }
  std::string out = doors::lossy_utf8(std::exchange(head.out, {}));
  std::string err = doors::lossy_utf8(std::exchange(head.err, {}));
  if (done->timed_out) {
    if (!err.empty() && !err.ends_with('\n')) err += '\n';
    err += "Command timed out";
    reply.set_timed_out(true);
  } else {
    reply.set_exit_code(done->signal != 0 ? -done->signal : done->exit_code);
  }
  fit_output(out, err, head.out_lost, head.err_lost);
  reply.set_stdout(std::move(out));
  reply.set_stderr(std::move(err));
}

}  // namespace caisson::grpc
