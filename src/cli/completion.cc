#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "cli/cli.h"
#include "cli/options.h"

namespace caisson::cli {
namespace {

// ----------------------------------------------------------------------------------------------
// asking the commands

// "TEXT:{text,json}": what stands between the braces.
std::vector<std::string> choices(const std::string& type) {
  std::vector<std::string> words;
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) return words;
  std::string_view rest = std::string_view(type).substr(begin + 1, end - begin - 1);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    words.emplace_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return words;
}

void add_options_of(const CLI::App& app, CompletionCommand& out) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (option->get_positional()) {
      for (std::string& word : choices(type)) out.words.push_back(std::move(word));
      continue;
    }
    CompletionFlag flag;
    if (!option->get_lnames().empty()) flag.long_name = "--" + option->get_lnames().front();
    if (!option->get_snames().empty()) flag.short_name = "-" + option->get_snames().front();
    flag.help = option->get_description();
    flag.takes_value = option->get_items_expected_max() > 0;
    flag.type = type.substr(0, type.find_first_of(": "));
    flag.words = choices(type);
    out.flags.push_back(std::move(flag));
  }
}

void add_command(const CLI::App& app, const std::string& name, std::string help,
                 std::vector<CompletionCommand>& tree) {
  const std::size_t at = tree.size();
  tree.push_back({.name = name, .help = std::move(help), .flags = {}, .words = {}, .commands = {}});
  add_options_of(app, tree[at]);
  for (const CLI::App* inner : app.get_subcommands(nullptr)) {
    if (inner->get_name().empty()) {  // a group of options
      add_options_of(*inner, tree[at]);
      continue;
    }
    tree[at].commands.push_back(inner->get_name());
    add_command(*inner, name + " " + inner->get_name(), inner->get_description(), tree);
  }
}

// ----------------------------------------------------------------------------------------------
// telling the shells

std::vector<std::string> typed_words(const CompletionCommand& command) {
  std::vector<std::string> words = command.commands;
  words.insert(words.end(), command.words.begin(), command.words.end());
  for (const CompletionFlag& flag : command.flags)
    words.push_back(flag.long_name.empty() ? flag.short_name : flag.long_name);
  return words;
}

std::string bash_values(const CompletionFlag& flag) {
  if (!flag.words.empty()) return fmt::format("-W \"{}\"", fmt::join(flag.words, " "));
  if (flag.type == "FILE") return "-f";
  if (flag.type == "PATH") return "-d";
  return "";
}

std::string bash_value_cases(const CompletionCommand& command) {
  std::string out;
  for (const CompletionFlag& flag : command.flags) {
    if (!flag.takes_value) continue;
    std::string names = fmt::format("\"{} {}\"", command.name, flag.long_name);
    if (!flag.short_name.empty()) names += fmt::format("|\"{} {}\"", command.name, flag.short_name);
    const std::string values = bash_values(flag);
    out += values.empty()
               ? fmt::format("    {}) return ;;\n", names)
               : fmt::format("    {}) COMPREPLY=($(compgen {} -- \"$word\")); return ;;\n", names,
                             values);
  }
  return out;
}

std::string bash_script(const std::vector<CompletionCommand>& tree) {
  std::vector<std::string> top;
  std::vector<std::string> with_own;
  std::string values;
  std::string words;
  for (const CompletionCommand& command : tree) {
    if (command.name.find(' ') == std::string::npos) top.push_back(command.name);
    if (!command.commands.empty()) with_own.push_back(command.name);
    values += bash_value_cases(command);
    words += fmt::format("    \"{}\") COMPREPLY=($(compgen -W \"{}\" -- \"$word\")) ;;\n",
                         command.name, fmt::join(typed_words(command), " "));
  }
  return fmt::format(
      R"(_caisson() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="${{COMP_WORDS[1]}}" i
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$word"))
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [ "${{COMP_WORDS[i]}}" = -- ]; then COMPREPLY=($(compgen -c -- "$word")); return; fi
  done
  case "$command" in
    {}) [ "$COMP_CWORD" -gt 2 ] && command="$command ${{COMP_WORDS[2]}}" ;;
  esac
  case "$command $previous" in
{}  esac
  case "$command" in
{}  esac
}}
complete -F _caisson caisson
)",
      fmt::join(top, " "), fmt::join(with_own, "|"), values, words);
}

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + "'";
}

std::string fish_flag(const std::string& condition, const CompletionFlag& flag) {
  std::string line = fmt::format("complete -c caisson -n {}", fish_quoted(condition));
  if (!flag.long_name.empty()) line += " -l " + flag.long_name.substr(2);
  if (!flag.short_name.empty()) line += " -s " + flag.short_name.substr(1);
  if (!flag.words.empty()) {
    line += fmt::format(" -x -a '{}'", fmt::join(flag.words, " "));
  } else if (flag.type == "PATH") {
    line += " -x -a '(__fish_complete_directories)'";
  } else if (flag.takes_value) {
    line += flag.type == "FILE" ? " -r -F" : " -x";
  }
  return line + " -d " + fish_quoted(flag.help) + "\n";
}

std::string fish_script(const std::vector<CompletionCommand>& tree) {
  std::string out = "complete -c caisson -f\n";
  for (const CompletionCommand& command : tree) {
    const std::size_t gap = command.name.find(' ');
    const bool inner = gap != std::string::npos;
    const std::string last = inner ? command.name.substr(gap + 1) : command.name;
    const std::string outer = command.name.substr(0, gap);
    const std::string here = "__fish_seen_subcommand_from " + outer;
    out += fmt::format("complete -c caisson -n {} -a {} -d {}\n",
                       fish_quoted(inner ? here : "__fish_use_subcommand"), last,
                       fish_quoted(command.help));
    const std::string condition =
        inner ? fmt::format("{}; and __fish_seen_subcommand_from {}", here, last) : here;
    if (!command.words.empty()) {
      out += fmt::format("complete -c caisson -n {} -a '{}'\n", fish_quoted(condition),
                         fmt::join(command.words, " "));
    }
    for (const CompletionFlag& flag : command.flags) out += fish_flag(condition, flag);
  }
  return out;
}

}  // namespace

std::vector<CompletionCommand> completion_tree() {
  std::vector<CompletionCommand> tree;
  for (const Command& one : commands()) {
    if (one.summary.empty()) continue;
    const Witness witness([&](const CLI::App& app) {
      add_command(app, std::string(one.name), std::string(one.summary), tree);
    });
    std::string name(one.name);
    char* args[] = {name.data(), nullptr};
    (void)one.run(std::span(args, 1));
  }
  return tree;
}

std::string completion_script(std::string_view shell) {
  const std::vector<CompletionCommand> tree = completion_tree();
  if (shell == "fish") return fish_script(tree);
  if (shell == "bash") return bash_script(tree);
  return "#compdef caisson\nautoload -U +X bashcompinit && bashcompinit\n" + bash_script(tree);
}

int completion_command(std::span<char*> args) {
  CLI::App app("Prints a completion script. For bash: source <(caisson completion bash)");
  std::string shell;
  app.add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  if (const auto done = parse(app, args)) return *done;
  fmt::print("{}", completion_script(shell));
  return kExitOk;
}

}  // namespace caisson::cli
