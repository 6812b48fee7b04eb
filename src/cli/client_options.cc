#include "cli/client_options.h"

#include "cli/options.h"

namespace caisson::cli {

struct CommandLine::App {
  std::unique_ptr<CLI::App> own;  // none for a command of another
  CLI::App* app;
};

CommandLine::CommandLine(const char* help) : app_(std::make_unique<App>()) {
  app_->own = std::make_unique<CLI::App>(help);
  app_->app = app_->own.get();
}

CommandLine::CommandLine(std::unique_ptr<App> app) : app_(std::move(app)) {}

CommandLine::~CommandLine() = default;

void CommandLine::flag(const char* names, bool& out, const char* help) {
  app_->app->add_flag(names, out, help);
}

void CommandLine::text(const char* name, std::string& out, const char* type, const char* help) {
  app_->app->add_option(name, out, help)->type_name(type);
}

void CommandLine::texts(const char* name, std::vector<std::string>& out, const char* type,
                        const char* help) {
  app_->app->add_option(name, out, help)->type_name(type)->allow_extra_args(false);
}

void CommandLine::choice(const char* name, std::string& out,
                         std::initializer_list<const char*> words, const char* help) {
  app_->app->add_option(name, out, help)
      ->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
}

void CommandLine::whole(const char* names, std::uint64_t& out, std::uint64_t max, const char* type,
                        const char* help) {
  app_->app->add_option(names, out, help)
      ->type_name(type)
      ->check(CLI::Range(std::uint64_t{0}, max));
}

void CommandLine::fraction(const char* name, double& out, double min, double max, const char* type,
                           const char* help) {
  app_->app->add_option(name, out, help)->type_name(type)->check(CLI::Range(min, max));
}

void CommandLine::word(const char* name, std::string& out, Need need, const char* type,
                       const char* help) {
  app_->app->add_option(name, out, help)->type_name(type)->required(need == Need::Required);
}

void CommandLine::words(const char* name, std::vector<std::string>& out, Need need,
                        const char* type, const char* help) {
  app_->app->add_option(name, out, help)->type_name(type)->required(need == Need::Required);
}

CommandLine& CommandLine::command(const char* name, const char* help) {
  app_->app->require_subcommand(1);
  auto app = std::make_unique<App>();
  app->app = app_->app->add_subcommand(name, help);
  commands_.push_back(std::unique_ptr<CommandLine>(new CommandLine(std::move(app))));
  return *commands_.back();
}

bool CommandLine::chosen() const { return app_->app->parsed(); }

bool CommandLine::given(const char* name) const { return app_->app->count(name) > 0; }

std::optional<int> CommandLine::parse(std::span<char*> args) {
  return cli::parse(*app_->app, args);
}

}  // namespace caisson::cli
