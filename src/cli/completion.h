// cli/completion.h — what a shell needs to know to complete a command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caisson::cli {

struct CompletionFlag {
  std::string long_name;   // with its dashes; or empty
  std::string short_name;  // with its dash; or empty
  std::string help;
  bool takes_value = false;
  std::string type;                // of the value: FILE, PATH, SIZE, …
  std::vector<std::string> words;  // when only these are values
};

struct CompletionCommand {
  std::string name;  // "audit", "audit verify"
  std::string help;
  std::vector<CompletionFlag> flags;
  std::vector<std::string> words;     // for an argument without a flag
  std::vector<std::string> commands;  // of its own: "tail", "verify"
};

// Of every command that is for people; asked of the commands themselves.
[[nodiscard]] std::vector<CompletionCommand> completion_tree();

// `shell` is bash, zsh or fish.
[[nodiscard]] std::string completion_script(std::string_view shell);

}  // namespace caisson::cli
