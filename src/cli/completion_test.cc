#include "cli/completion.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/cli.h"

namespace caisson::cli {
namespace {

const CompletionCommand* find(const std::vector<CompletionCommand>& tree, std::string_view name) {
  const auto at = std::ranges::find(tree, name, &CompletionCommand::name);
  return at == tree.end() ? nullptr : &*at;
}

const CompletionFlag* flag(const CompletionCommand* command, std::string_view name) {
  if (command == nullptr) return nullptr;
  const auto at = std::ranges::find(command->flags, name, &CompletionFlag::long_name);
  return at == command->flags.end() ? nullptr : &*at;
}

TEST(Completion, KnowsEveryCommandThatIsForPeople) {
  const auto tree = completion_tree();
  for (const Command& one : commands()) {
    const auto* known = find(tree, one.name);
    ASSERT_EQ(known != nullptr, !one.summary.empty()) << one.name;
    if (known != nullptr) EXPECT_NE(flag(known, "--help"), nullptr) << one.name;
  }
}

TEST(Completion, KnowsFlagsAndTheirValues) {
  const auto tree = completion_tree();
  const auto* config = flag(find(tree, "run"), "--config");
  ASSERT_NE(config, nullptr);
  EXPECT_TRUE(config->takes_value);
  EXPECT_EQ(config->type, "FILE");
  const auto* quiet = flag(find(tree, "ls"), "--quiet");
  ASSERT_NE(quiet, nullptr);
  EXPECT_FALSE(quiet->takes_value);
  EXPECT_EQ(quiet->short_name, "-q");
  const auto* output = flag(find(tree, "validate"), "--output");
  ASSERT_NE(output, nullptr);
  EXPECT_EQ(output->words, (std::vector<std::string>{"text", "json"}));
  EXPECT_NE(flag(find(tree, "serve"), "--orphan-grace"), nullptr);
}

TEST(Completion, KnowsCommandsOfCommands) {
  const auto tree = completion_tree();
  const auto* audit = find(tree, "audit");
  ASSERT_NE(audit, nullptr);
  EXPECT_EQ(audit->commands, (std::vector<std::string>{"tail", "verify", "export"}));
  EXPECT_NE(flag(find(tree, "token create"), "--tenant"), nullptr);
  EXPECT_EQ(find(tree, "completion")->words, (std::vector<std::string>{"bash", "zsh", "fish"}));
}

TEST(Completion, TheScriptsSpeakOfAllOfThem) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(shell);
    for (const Command& one : commands()) {
      if (one.summary.empty()) continue;
      EXPECT_NE(script.find(one.name), std::string::npos) << shell << " " << one.name;
    }
    EXPECT_NE(script.find("orphan-grace"), std::string::npos) << shell;
  }
}

}  // namespace
}  // namespace caisson::cli
