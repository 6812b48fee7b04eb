#include "policy/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "policy/wording.h"

namespace caisson::policy {

std::unexpected<Error> invalid_at(Position at, std::string_view message) {
  return failure(Errc::InvalidArgument,
                 fmt::format("line {}, column {}: {}", at.line, at.column, message));
}

std::string_view describe(const YamlNode& node) noexcept {
  switch (node.kind) {
    case YamlNode::Kind::Null:
      return node.plain ? "null" : "nothing";
    case YamlNode::Kind::Scalar:
      return node.plain ? "a plain value" : "a quoted string";
    case YamlNode::Kind::List:
      return "a list";
    case YamlNode::Kind::Mapping:
      return "a mapping";
  }
  return "nothing";
}

namespace {

Position position_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return Position{mark.line + 1, mark.column + 1};
}

// Leaves yaml-cpp's parser at the first thing that is refused, so that a hostile text costs no more
// than its beginning.
struct Refused {
  Error error;
};

[[noreturn]] void refuse(Position at, std::string_view message) {
  throw Refused{invalid_at(at, message).error()};
}

// Does a null stand here as a word? For a place where nothing stands, yaml-cpp gives the mark of
// whatever comes next, and its event is otherwise the same.
bool is_null_word(std::string_view rest) {
  for (const std::string_view word : {"null", "Null", "NULL", "~"}) {
    if (!rest.starts_with(word)) continue;
    const std::string_view after = rest.substr(word.size(), 1);
    if (after.empty() || std::string_view(" \t\r\n,]}").find(after) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view text) : text_(text) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(seen_document_, true)) refuse(position_of(mark), "more than one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node = begin(YamlNode::Kind::Null, mark, "", anchor);
    const auto at = static_cast<std::size_t>(std::max(mark.pos, 0));  // counts bytes
    node.plain = at < text_.size() && is_null_word(text_.substr(at));
    attach(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(position_of(mark), "an alias (*name) is not allowed");
  }

  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    refuse(position_of(mark), "an anchor (&name) is not allowed");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = begin(YamlNode::Kind::Scalar, mark, tag, anchor);
    node.plain = tag == "?";
    node.text = value;
    attach(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(begin(YamlNode::Kind::List, mark, tag, anchor));
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(begin(YamlNode::Kind::Mapping, mark, tag, anchor));
  }
  void OnMapEnd() override { close(); }

  [[nodiscard]] YamlNode take_root() { return std::move(root_); }

 private:
  static YamlNode begin(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
                        YAML::anchor_t anchor) {
    const Position at = position_of(mark);
    if (anchor != YAML::NullAnchor) refuse(at, "an anchor (&name) is not allowed");
    // "?" and "!" are what yaml-cpp says of a plain and a quoted value without a tag.
    if (!tag.empty() && tag != "?" && tag != "!") refuse(at, "a tag (!name) is not allowed");
    YamlNode node;
    node.kind = kind;
    node.at = at;
    return node;
  }

  void open(YamlNode node) {
    if (open_.size() >= kYamlDepthMax) refuse(node.at, "nested too deeply");
    if (expects_key()) refuse(node.at, "a field name must be a plain word");
    open_.push_back(std::move(node));
  }

  void close() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    attach(std::move(node));
  }

  void attach(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (expects_key()) {
      add_key(open_.back(), std::move(node));
    } else {
      open_.back().items.push_back(std::move(node));
    }
  }

  static void add_key(YamlNode& mapping, YamlNode node) {
    if (node.kind != YamlNode::Kind::Scalar) refuse(node.at, "a field name must be a plain word");
    if (mapping.keys.size() >= kYamlKeysMax) refuse(node.at, "too many fields in one mapping");
    const auto same = std::ranges::find(mapping.keys, node.text, &YamlKey::name);
    if (same != mapping.keys.end()) {
      refuse(node.at, fmt::format("field {} is given twice; first on line {}", in_quotes(node.text),
                                  same->at.line));
    }
    mapping.keys.push_back(YamlKey{std::move(node.text), node.at});
  }

  [[nodiscard]] bool expects_key() const {
    if (open_.empty() || open_.back().kind != YamlNode::Kind::Mapping) return false;
    return open_.back().keys.size() == open_.back().items.size();
  }

  std::string_view text_;
  bool seen_document_ = false;
  YamlNode root_;
  std::vector<YamlNode> open_;
};

// yaml-cpp guesses UTF-16 and UTF-32 from the first bytes and passes control characters on. A
// policy is text that its reader saw as it is.
Result<void> check_text(std::string_view text) {
  if (text.size() > kCapabilityBytesMax) {
    return failure(Errc::InvalidArgument, fmt::format("{} bytes are too many, at most {}",
                                                      text.size(), kCapabilityBytesMax));
  }
  Position at;
  for (const char c : text) {
    const bool space = c == '\t' || c == '\n' || c == '\r';
    if (is_control(c) && !space) return invalid_at(at, "a NUL or control character");
    // yaml-cpp skips a directive it does not know, and with it the policy that was meant.
    if (c == '%' && at.column == 1) return invalid_at(at, "a directive (%NAME) is not allowed");
    ++at.column;
    if (c == '\n') at = Position{at.line + 1, 1};
  }
  if (!is_utf8(text)) return failure(Errc::InvalidArgument, "the text is not valid UTF-8");
  return {};
}

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text) {
  TRY(check_text(text));
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // yaml-cpp does not count it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    TreeBuilder builder(text);
    while (parser.HandleNextDocument(builder)) {
      // A second document is refused by the builder when it begins.
    }
    return builder.take_root();
  } catch (const Refused& refused) {
    return std::unexpected(refused.error);
  } catch (const YAML::Exception& error) {
    return invalid_at(position_of(error.mark), "YAML: " + printable(error.msg));
  } catch (const std::exception& error) {
    return failure(Errc::InvalidArgument, "YAML: " + printable(error.what()));
  }
}

}  // namespace caisson::policy
