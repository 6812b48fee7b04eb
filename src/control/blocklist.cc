#include "control/blocklist.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>

#include "control/open_fleet.h"

namespace caisson::control {
namespace {

RE2::Options options() {
  RE2::Options out(RE2::Latin1);  // commands are bytes: text that is no UTF-8 must not slip through
  out.set_log_errors(false);
  return out;
}

}  // namespace

struct Blocklist::Compiled {
  std::vector<std::string> patterns;
  RE2::Set set{options(), RE2::UNANCHORED};
};

Blocklist::Blocklist() = default;
Blocklist::Blocklist(Blocklist&&) noexcept = default;
Blocklist& Blocklist::operator=(Blocklist&&) noexcept = default;
Blocklist::~Blocklist() = default;

Result<Blocklist> Blocklist::compile(const std::vector<std::string>& patterns) {
  Blocklist out;
  if (patterns.empty()) return out;
  const auto wrong = [](std::string message) {
    return bad_field("sandbox.command_blocklist", "command_blocklist: " + std::move(message));
  };
  if (patterns.size() > kPatternsMax) return wrong("more than 256 patterns");
  auto compiled = std::make_unique<Compiled>();
  for (const std::string& pattern : patterns) {
    if (pattern.size() > kPatternBytesMax) return wrong("a pattern is longer than 1024 bytes");
    std::string why;
    if (compiled->set.Add(pattern, &why) < 0) return wrong("'" + pattern + "': " + why);
  }
  if (!compiled->set.Compile()) return wrong("together they need too much memory");
  compiled->patterns = patterns;
  out.compiled_ = std::move(compiled);
  return out;
}

std::optional<std::string> Blocklist::match(std::string_view text) const {
  if (!compiled_) return std::nullopt;
  std::vector<int> found;
  RE2::Set::ErrorInfo error{};
  if (compiled_->set.Match(re2::StringPiece(text.data(), text.size()), &found, &error)) {
    return compiled_->patterns[static_cast<std::size_t>(*std::ranges::min_element(found))];
  }
  if (error.kind != RE2::Set::kNoError) return "(the text could not be judged)";
  return std::nullopt;
}

std::vector<std::string> default_blocklist() {
  return {
      // rm with -r of "/", "/*" or a folder right below, in any order of its flags.
      R"(\brm\s+(?:-\S+\s+)*-\S*[rR]\S*\s+(?:-\S+\s+)*/+(?:\*|\.)?(?:\s|;|&|\||$))",
      R"(\brm\s+.*--no-preserve-root)",
      R"((?:^|[\s;&|(])(?:/\S*/)?(?:shutdown|reboot|halt|poweroff)(?:\s|;|&|\||\)|$))",
      R"((?:^|[\s;&|(])(?:/\S*/)?init\s+[06](?:\s|;|&|\||$))",
      R"(:\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:)",
      R"((?:^|[\s;&|(])(?:/\S*/)?mkfs(?:\.\w+)?\s)",
      R"(\bdd\b.*\bof=/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|loop|dm-|mapper/|mem|kmem))",
  };
}

}  // namespace caisson::control
