#include "doors/sandboxer/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/id.h"
#include "doors/shared/json_text.h"
#include "store/digest.h"

namespace caisson::sandboxer {

namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";
constexpr std::string_view kUlidLetters = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr std::size_t kUlidLength = 26;
constexpr std::size_t kUlidTimeLength = 10;
constexpr double kWallSecondsMax = 9.0e12;  // in microseconds it still is a number of 64 bits

bool is_letter_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

struct Type {
  std::string_view ending;
  std::string_view type;
};

// clang-format off
constexpr std::array kTypes = {
    Type{"avif", "image/avif"},            Type{"bmp", "image/bmp"},
    Type{"bz2", "application/x-bzip2"},    Type{"c", "text/x-csrc"},
    Type{"css", "text/css"},               Type{"csv", "text/csv"},
    Type{"gif", "image/gif"},              Type{"gz", "application/gzip"},
    Type{"htm", "text/html"},              Type{"html", "text/html"},
    Type{"ico", "image/vnd.microsoft.icon"}, Type{"jpeg", "image/jpeg"},
    Type{"jpg", "image/jpeg"},             Type{"js", "text/javascript"},
    Type{"json", "application/json"},      Type{"log", "text/plain"},
    Type{"md", "text/markdown"},           Type{"mjs", "text/javascript"},
    Type{"mov", "video/quicktime"},        Type{"mp3", "audio/mpeg"},
    Type{"mp4", "video/mp4"},              Type{"mpeg", "video/mpeg"},
    Type{"ogg", "audio/ogg"},              Type{"pdf", "application/pdf"},
    Type{"png", "image/png"},              Type{"py", "text/x-python"},
    Type{"sh", "application/x-sh"},        Type{"svg", "image/svg+xml"},
    Type{"tar", "application/x-tar"},      Type{"ts", "video/mp2t"},
    Type{"tsv", "text/tab-separated-values"}, Type{"txt", "text/plain"},
    Type{"wasm", "application/wasm"},      Type{"wav", "audio/x-wav"},
    Type{"webm", "video/webm"},            Type{"webp", "image/webp"},
    Type{"xml", "application/xml"},        Type{"zip", "application/zip"},
};
// clang-format on

std::string_view status_word(const Row& row) { return row.living() ? "running" : "terminated"; }

void append_node(std::string& out, const Row& row) {
  out += fmt::format("{}📦 {} [{}]", row.living() ? "" : "💀 DEAD ", row.label, row.id);
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string fork_hostname(std::string_view parent, std::string_view label) {
  std::string out(parent);
  out += '-';
  for (const char c : label) {
    if (is_letter_or_digit(c)) {
      out += c;
    } else if (!out.ends_with('-')) {
      out += '-';
    }
  }
  out.resize(std::min(out.size(), kHostnameMax));
  while (out.ends_with('-')) out.pop_back();
  return lower_case(out);
}

double seconds_of(store::WallTime time) noexcept { return static_cast<double>(time) / 1e6; }

store::WallTime wall_of(double seconds) noexcept {
  if (!std::isfinite(seconds)) return 0;
  return static_cast<store::WallTime>(std::clamp(seconds, 0.0, kWallSecondsMax) * 1e6);
}

// A tree is as deep as its forks: both walks keep a stack of their own, and both stop where a text
// would be too long to send.
std::string tree_json(const Rows& rows, const RowPtr& top) {
  struct Step {
    RowPtr row;  // null: a node ends
    bool first = true;
  };
  std::string out;
  std::vector<Step> front{{top, true}};
  while (!front.empty()) {
    const Step step = std::move(front.back());
    front.pop_back();
    if (!step.row) {
      out += "]}";
      continue;
    }
    if (!step.first) out += ',';
    out += R"({"id":)";
    doors::append_string(out, step.row->id);
    out += R"(,"label":)";
    doors::append_string(out, step.row->label);
    out += fmt::format(R"(,"status":"{}","children":[)", status_word(*step.row));
    front.push_back({nullptr, true});
    if (out.size() > kTreeBytesMax) continue;
    const auto children = rows.children(step.row->id);
    for (std::size_t i = children.size(); i-- > 0;) front.push_back({children[i], i == 0});
  }
  return out;
}

std::string tree_text(const Rows& rows, const RowPtr& top) {
  struct Step {
    RowPtr row;
    std::shared_ptr<const std::string> prefix;
    bool last = true;
  };
  std::string out;
  append_node(out, *top);
  std::vector<Step> front;
  const auto add_children = [&](const Row& row, std::string prefix) {
    const auto shared = std::make_shared<const std::string>(std::move(prefix));
    const auto children = rows.children(row.id);
    for (std::size_t i = children.size(); i-- > 0;)
      front.push_back({children[i], shared, i + 1 == children.size()});
  };
  add_children(*top, "    ");
  while (!front.empty() && out.size() <= kTreeBytesMax) {
    const Step step = std::move(front.back());
    front.pop_back();
    out += fmt::format("\n{}{}", *step.prefix, step.last ? "└── " : "├── ");
    append_node(out, *step.row);
    add_children(*step.row, *step.prefix + (step.last ? "    " : "│   "));
  }
  return out;
}

std::string content_type(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  std::string ending =
      dot == std::string_view::npos || dot == 0 ? "" : lower_case(name.substr(dot + 1));
  const auto at = std::ranges::find(kTypes, std::string_view(ending), &Type::ending);
  if (at == kTypes.end()) return "application/octet-stream";
  std::string type(at->type);
  if (type.starts_with("text/")) type += "; charset=utf-8";
  return type;
}

std::string attachment(std::string_view name) {
  std::string plain;
  std::string encoded;
  bool same = true;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool fine = byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\';
    plain += fine ? c : '_';
    same = same && fine;
    if (is_letter_or_digit(c) || c == '.' || c == '-' || c == '_') {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned>(byte));
    }
  }
  std::string out = fmt::format("attachment; filename=\"{}\"", plain);
  if (!same) out += "; filename*=UTF-8''" + encoded;
  return out;
}

std::optional<std::string> absolute_path(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (part == "..") return std::nullopt;
    if (part.empty() || part == ".") continue;
    out += '/';
    out += part;
  }
  return out.empty() ? "/" : out;
}

Result<std::string> fresh_ulid(store::WallTime now) {
  const auto seed = TRY(SandboxId::random());
  const store::Digest random = store::sha256(seed.str());
  std::string out(kUlidLength, '0');
  auto millis = static_cast<std::uint64_t>(std::max<store::WallTime>(0, now / 1000));
  for (std::size_t i = kUlidTimeLength; i-- > 0; millis >>= 5U) out[i] = kUlidLetters[millis & 31U];
  for (std::size_t i = kUlidTimeLength; i < kUlidLength; ++i)
    out[i] = kUlidLetters[random[i] & 31U];
  return out;
}

std::optional<store::WallTime> ulid_time(std::string_view text) {
  if (text.size() != kUlidLength || text.front() > '7') return std::nullopt;
  std::uint64_t millis = 0;
  for (const char c : text) {
    if (kUlidLetters.find(c) == std::string_view::npos) return std::nullopt;
  }
  for (const char c : text.substr(0, kUlidTimeLength))
    millis = (millis << 5U) | kUlidLetters.find(c);
  if (millis > static_cast<std::uint64_t>(kWallSecondsMax * 1000)) return std::nullopt;
  return static_cast<store::WallTime>(millis * 1000);
}

void LineSplitter::feed(std::string_view bytes, const Take& take) {
  decoded_.clear();
  decoder_.feed(bytes, decoded_);
  std::string_view rest = decoded_;
  for (;;) {
    const std::size_t end = rest.find('\n');
    line_ += rest.substr(0, end);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    take(std::exchange(line_, {}));
  }
  while (line_.size() > kLineBytesMax) {
    const std::size_t fits = doors::cut_utf8(line_, kLineBytesMax).size();
    take(line_.substr(0, fits));
    line_.erase(0, fits);
  }
}

void LineSplitter::finish(const Take& take) {
  decoder_.finish(line_);
  if (!line_.empty()) take(std::exchange(line_, {}));
}

std::size_t unfinished_bytes(std::string_view bytes) noexcept {
  const std::size_t most = std::min<std::size_t>(bytes.size(), 3);
  for (std::size_t back = 1; back <= most; ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

void Trimmer::feed(std::string_view text, std::string& out) {
  if (!begun_) {
    const std::size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return;
    text.remove_prefix(begin);
    begun_ = true;
  }
  const std::size_t last = text.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    held_ += text;
  } else {
    out += held_;
    out += text.substr(0, last + 1);
    held_ = text.substr(last + 1);
  }
  if (held_.size() > kLineBytesMax) out += std::exchange(held_, {});
}

}  // namespace caisson::sandboxer
