#include "doors/console/bundle.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

// NOLINTBEGIN(readability-identifier-naming): the names are the assembler's.
extern "C" {
extern const char caisson_console_begin[];
extern const char caisson_console_end[];
}
// NOLINTEND(readability-identifier-naming)

namespace caisson::console {

namespace {

constexpr std::string_view kFirstLine = "caisson console 1\n";

// The text before the mark, which goes too; nothing when there is no mark.
std::optional<std::string_view> take(std::string_view& text, char mark) {
  const std::size_t end = text.find(mark);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end + 1);
  return taken;
}

std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, ec] = std::from_chars(text.begin(), text.end(), value);
  if (ec != std::errc{} || end != text.end()) return std::nullopt;
  return value;
}

struct Line {
  Asset asset;
  std::size_t gzip_bytes = 0;
};

// path, type, "hashed" or "page", digest, bytes, compressed bytes: separated by tabs.
std::optional<Line> read_line(std::string_view text) {
  std::array<std::string_view, 5> words;
  for (auto& word : words) {
    const auto taken = take(text, '\t');
    if (!taken || taken->empty()) return std::nullopt;
    word = *taken;
  }
  const auto plain = number(words[4]);
  const auto gzip = number(text);
  if (!plain || !gzip || *plain > kPlainBytesMax || !words[0].starts_with('/')) return std::nullopt;
  Line line;
  line.asset = {.path = words[0],
                .type = words[1],
                .immutable = words[2] == "hashed",
                .digest = words[3],
                .plain_bytes = *plain,
                .gzip = {}};
  line.gzip_bytes = *gzip;
  return line;
}

std::unexpected<Error> broken(std::string_view why) {
  return failure(Errc::Protocol, "the console's files: " + std::string(why));
}

}  // namespace

Result<Bundle> Bundle::read(std::string_view text) {
  if (!text.starts_with(kFirstLine)) return broken("not a bundle");
  text.remove_prefix(kFirstLine.size());
  std::vector<Line> lines;
  for (;;) {
    const auto words = take(text, '\n');
    if (!words) return broken("the table has no end");
    if (words->empty()) break;
    const auto line = read_line(*words);
    if (!line) return broken("cannot read '" + std::string(*words) + "'");
    if (lines.size() == kFilesMax) return broken("too many of them");
    lines.push_back(*line);
  }
  Bundle bundle;
  for (auto& [asset, gzip_bytes] : lines) {
    if (text.size() < gzip_bytes) return broken("cut off");
    asset.gzip = std::as_bytes(std::span(text.substr(0, gzip_bytes)));
    text.remove_prefix(gzip_bytes);
    bundle.assets_.push_back(asset);
  }
  if (!text.empty()) return broken("more bytes than the table names");
  std::ranges::sort(bundle.assets_, {}, &Asset::path);
  return bundle;
}

const Asset* Bundle::find(std::string_view path) const noexcept {
  const auto found = std::ranges::lower_bound(assets_, path, {}, &Asset::path);
  return found != assets_.end() && found->path == path ? &*found : nullptr;
}

std::string_view embedded_bundle() noexcept { return {caisson_console_begin, caisson_console_end}; }

}  // namespace caisson::console
