#include <fmt/format.h>

#include <cstdio>

#include "cli/cli.h"
#include "cli/options.h"

namespace caisson::cli {
namespace {

constexpr const char* kBash = R"(_caisson() {
  local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "run validate inspect doctor bench completion --help --version" -- "$word"))
    return
  fi
  case "$previous" in
    --config) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --writable|--workdir) COMPREPLY=($(compgen -d -- "$word")); return ;;
    --tier) COMPREPLY=($(compgen -W "seccomp native gvisor firecracker microvm" -- "$word")); return ;;
    --output|--summary) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
    --) COMPREPLY=($(compgen -c -- "$word")); return ;;
  esac
  case "${COMP_WORDS[1]}" in
    run) COMPREPLY=($(compgen -W "--config --timeout --tier --memory --cpus --cpu-seconds --pids --disk --env --user --workdir --writable --allow --no-folder --quiet --summary --dry-run --state-dir --help --" -- "$word")) ;;
    validate) COMPREPLY=($(compgen -W "--config --output --help" -- "$word")) ;;
    inspect) COMPREPLY=($(compgen -W "--sandbox-id --help" -- "$word")) ;;
    doctor) COMPREPLY=($(compgen -W "--json --help" -- "$word")) ;;
    bench) COMPREPLY=($(compgen -W "--rounds --live --json --help" -- "$word")) ;;
    completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$word")) ;;
  esac
}
complete -F _caisson caisson
)";

constexpr const char* kZsh = R"(#compdef caisson
autoload -U +X bashcompinit && bashcompinit
)";

constexpr const char* kFish = R"(complete -c caisson -f
complete -c caisson -n __fish_use_subcommand -a run -d 'run a command in a new sandbox'
complete -c caisson -n __fish_use_subcommand -a validate -d 'check a capability file'
complete -c caisson -n __fish_use_subcommand -a inspect -d 'show a live sandbox'
complete -c caisson -n __fish_use_subcommand -a doctor -d 'what this host can hold'
complete -c caisson -n __fish_use_subcommand -a bench -d 'measure this host'
complete -c caisson -n __fish_use_subcommand -a completion -d 'print a completion script'
complete -c caisson -n '__fish_seen_subcommand_from run validate' -l config -r -F
complete -c caisson -n '__fish_seen_subcommand_from run' -l writable -r -a '(__fish_complete_directories)'
complete -c caisson -n '__fish_seen_subcommand_from run' -l timeout -l memory -l cpus -l cpu-seconds -l pids -l disk -x
complete -c caisson -n '__fish_seen_subcommand_from run' -l quiet -l dry-run -l no-folder
complete -c caisson -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
)";

}  // namespace

int completion_command(std::span<char*> args) {
  CLI::App app("Prints a completion script. For bash: source <(caisson completion bash)");
  std::string shell;
  app.add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  if (const auto done = parse(app, args)) return *done;
  fmt::print("{}", shell == "fish" ? kFish : shell == "zsh" ? std::string(kZsh) + kBash : kBash);
  return kExitOk;
}

}  // namespace caisson::cli
