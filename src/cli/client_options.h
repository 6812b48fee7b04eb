// cli/client_options.h — the options of a client command, without CLI11 in sight. Its header makes
// a dozen objects at every start of the program in each file that includes it, and there are many
// client commands; this way only client_options.cc pays, and `caisson run` starts as fast as
// before.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace caisson::cli {

// Of options.h, which brings CLI11 along: "caisson NAME: message" on standard error.
void complain(const std::string& command, const std::string& message);

enum class Need : std::uint8_t { Required, Optional };

// What is filled outlives parse().
class CommandLine {
 public:
  explicit CommandLine(const char* help);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine();

  void flag(const char* names, bool& out, const char* help);
  void text(const char* name, std::string& out, const char* type, const char* help);
  // Given again and again; one value each time.
  void texts(const char* name, std::vector<std::string>& out, const char* type, const char* help);
  void choice(const char* name, std::string& out, std::initializer_list<const char*> words,
              const char* help);
  void whole(const char* names, std::uint64_t& out, std::uint64_t max, const char* type,
             const char* help);
  void fraction(const char* name, double& out, double min, double max, const char* type,
                const char* help);
  // Words without a flag, in the order of these calls.
  void word(const char* name, std::string& out, Need need, const char* type, const char* help);
  void words(const char* name, std::vector<std::string>& out, Need need, const char* type,
             const char* help);
  // One of these must be given; chosen() says which. It lives as long as this one.
  CommandLine& command(const char* name, const char* help);
  [[nodiscard]] bool chosen() const;
  [[nodiscard]] bool given(const char* name) const;

  // An exit status when there is nothing left to do.
  [[nodiscard]] std::optional<int> parse(std::span<char*> args);

 private:
  struct App;
  explicit CommandLine(std::unique_ptr<App> app);

  std::unique_ptr<App> app_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
};

}  // namespace caisson::cli
