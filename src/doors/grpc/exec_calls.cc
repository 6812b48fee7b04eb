// Exec and PipInstall: a command, and its output as one answer.
#include <fmt/format.h>

#include <algorithm>

#include "doors/grpc/exec_run.h"
#include "doors/grpc/pip.h"

namespace caisson::grpc {
namespace {

constexpr double kSecondsDefault = 30;
constexpr double kSecondsMax = 4'000'000;  // 46 days: no session lives that long
constexpr double kPipSeconds = 120;

void refuse(api::ExecResponse& reply, std::string words) {
  reply.set_exit_code(-1);
  reply.set_stderr(std::move(words));
}

}  // namespace

awaitable<Status> exec(Call& call, const api::ExecRequest& request, api::ExecResponse& reply) {
  const InUse session(call, request.session_id());
  reply.set_exit_code(-1);
  if (!session) {
    reply.set_stderr(std::string(kNoSession));
    co_return Status{};
  }
  if (request.command().empty()) co_return Status{};
  if (std::string fault = command_fault(request.command()); !fault.empty()) {
    refuse(reply, std::move(fault));
    co_return Status{};
  }
  if (request.workdir().find('\0') != std::string::npos) {
    refuse(reply, "embedded null byte");
    co_return Status{};
  }
  if (request.timeout() < 0) {
    refuse(reply, "Command timed out");
    reply.set_timed_out(true);
    co_return Status{};
  }
  auto wish = co_await shell_wish(call, *session, request.command(), request.workdir());
  if (!wish) {
    refuse(reply, co_await failure_words(call, *session, wish.error(), request.workdir()));
    co_return Status{};
  }
  wish->timeout_seconds =
      request.timeout() == 0 ? kSecondsDefault : std::min<double>(request.timeout(), kSecondsMax);
  co_await run_collected(call, *session, *std::move(wish), reply);
  co_return Status{};
}

awaitable<Status> pip_install(Call& call, const api::PipInstallRequest& request,
                              api::ExecResponse& reply) {
  const InUse session(call, request.session_id());
  if (!session) {
    refuse(reply, std::string(kNoSession));
    co_return Status{};
  }
  if (!may_use_pip(session->hosts)) {
    refuse(reply, "pip install requires pypi.org and files.pythonhosted.org in allowed_hosts");
    co_return Status{};
  }
  std::string command = "pip install --user";
  for (const std::string& package : request.packages()) {
    if (!is_package(package)) {
      refuse(reply, "Invalid package specifier: " + package);
      co_return Status{};
    }
    command += " '" + package + "'";
  }
  if (std::string fault = command_fault(command); !fault.empty()) {
    refuse(reply, std::move(fault));
    co_return Status{};
  }
  auto wish = co_await shell_wish(call, *session, std::move(command), "");
  if (!wish) {
    refuse(reply, co_await failure_words(call, *session, wish.error(), ""));
    co_return Status{};
  }
  wish->timeout_seconds = kPipSeconds;
  wish->environment = pip_environment(call.options());
  co_await run_collected(call, *session, *std::move(wish), reply);
  co_return Status{};
}

}  // namespace caisson::grpc
