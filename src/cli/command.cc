#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "cli/caddy_config.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/doctor.h"
#include "cli/vm.h"

namespace caisson::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "run a command in a new sandbox", run_command},
    {"serve", "serve sandboxes over HTTP", serve_command},
    {"validate", "check a capability file", validate_command},
    {"doctor", "what this host can hold, and what is missing", doctor_command},
    {"bench", "measure create, exec and destroy on this host", bench_command},
    {"create", "create a sandbox on the server and print its id", create_command},
    {"ls", "list the sandboxes of the server", ls_command},
    {"inspect", "show a live sandbox", inspect_command},
    {"exec", "run a command in a sandbox of the server", exec_command},
    {"shell", "open a terminal in a sandbox of the server", shell_command},
    {"cp", "copy files into a sandbox or out of one", cp_command},
    {"ps", "list the processes of a sandbox", ps_command},
    {"kill", "send a signal to a process of a sandbox", kill_command},
    {"logs", "what was done with a sandbox, or what a process printed", logs_command},
    {"pause", "freeze a sandbox", pause_command},
    {"resume", "let a paused sandbox go on", resume_command},
    {"hibernate", "keep a sandbox's processes on disk until it is used", hibernate_command},
    {"stop", "end the processes of a persistent sandbox", stop_command},
    {"start", "start a stopped sandbox on its files", start_command},
    {"rm", "destroy sandboxes", rm_command},
    {"mcp", "offer sandboxes to an agent by the Model Context Protocol", mcp_command},
    {"image", "what roots are made of: pull, import, ls, inspect, rm, gc, export, build-from",
     image_command},
    {"snapshot", "keep the files of a sandbox: create, ls, inspect, rm", snapshot_command},
    {"fork", "a second sandbox on the same files", fork_command},
    {"undo", "take the files of a sandbox back", undo_command},
    {"promote", "move a sandbox into a stronger tier", promote_command},
    {"diff", "what is different between two states of files", diff_command},
    {"merge", "bring the changes of a fork into a sandbox", merge_command},
    {"volume", "files that outlive sandboxes: create, ls, rm", volume_command},
    {"vm", "the kernel that microVMs boot: setup, status", vm_command},
    {"storage", "what the server's store of files can do", storage_command},
    {"events", "what happens to sandboxes", events_command},
    {"top", "what sandboxes use", top_command},
    {"audit", "the record of what was done: tail, verify, export", audit_command},
    {"egress", "what left sandboxes: log; what a rule would let out: test", egress_command},
    {"token", "who may call the server: create, list, revoke", token_command},
    {"user", "who the tenants are: list, show, add, rename, remove, import", user_command},
    {"secret", "what rules put into requests: set, list, rm", secret_command},
    {"config", "check the configuration of a server", config_command},
    {"caddy-config", "print a Caddyfile for a server with previews", caddy_config_command},
    {"completion", "print a completion script for bash, zsh or fish", completion_command},
    {"launcher", "", launcher_command},
};

void print_help() {
  fmt::print(
      "caisson: a computer for an AI agent. Runs untrusted code in a sealed box.\n\n"
      "usage: caisson COMMAND [OPTION…]\n\n");
  for (const Command& command : kCommands) {
    if (!command.summary.empty()) fmt::print("  {:<12} {}\n", command.name, command.summary);
  }
  fmt::print(
      "\n  caisson run -- python3 agent.py          safe defaults: no network, changes are "
      "discarded\n"
      "  caisson run --config cap.yaml -- ./tool  what a capability file allows\n"
      "  caisson COMMAND --help                   the options of one command\n");
}

// 0, 1 and 2 exist from here on, whoever started us: the first file we open must not become
// somebody's standard error.
void have_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    if (::open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
      continue;  // NOLINT(android-cloexec-open): it has it
  }
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

int command(std::span<char*> arguments) {
  have_standard_descriptors();
  const std::string_view name = arguments.size() > 1 ? arguments[1] : "";
  if (name == "--version" || name == "version") {
    fmt::print("caisson {}\n", CAISSON_VERSION);
    return kExitOk;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print_help();
    return kExitOk;
  }
  for (const Command& one : kCommands) {
    if (one.name != name) continue;
    try {
      return one.run(arguments.subspan(1));
    } catch (const std::exception& error) {
      fmt::print(stderr, "caisson {}: bug: {}\n", name, error.what());
      return kExitSandbox;
    }
  }
  if (name.empty()) {
    print_help();
  } else {
    fmt::print(stderr, "caisson: unknown command '{}'; see caisson --help\n", name);
  }
  return kExitUsage;
}

}  // namespace caisson::cli
