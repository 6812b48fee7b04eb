#include "egress/budget/json_walk.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <limits>

namespace caisson::egress {

namespace json = boost::json;

bool JsonPath::is(std::initializer_list<std::string_view> keys) const noexcept {
  return keys.size() == depth_ && std::equal(keys.begin(), keys.end(), keys_.begin());
}

bool JsonPath::passes(std::string_view key) const noexcept {
  return std::find(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(depth_), key) !=
         keys_.begin() + static_cast<std::ptrdiff_t>(depth_);
}

// The names and constants of this class are what Boost.JSON's parser calls.
class JsonHandler {
 public:
  // NOLINTBEGIN(readability-identifier-naming): Boost's names.
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();
  // NOLINTEND(readability-identifier-naming)

  explicit JsonHandler(JsonEvents& events) : events_(&events) {}

  void reset() {
    path_.depth_ = 0;
    key_open_ = false;
  }

  bool on_document_begin(json::error_code& /*ec*/) { return true; }
  bool on_document_end(json::error_code& /*ec*/) { return true; }
  bool on_object_begin(json::error_code& /*ec*/) { return begin(""); }
  bool on_object_end(std::size_t /*size*/, json::error_code& /*ec*/) { return end(); }
  bool on_array_begin(json::error_code& /*ec*/) { return begin("[]"); }
  bool on_array_end(std::size_t /*size*/, json::error_code& /*ec*/) { return end(); }
  bool on_key_part(json::string_view piece, std::size_t /*size*/, json::error_code& /*ec*/) {
    append_key(piece);
    return true;
  }
  bool on_key(json::string_view piece, std::size_t size, json::error_code& /*ec*/) {
    append_key(piece);
    key_open_ = false;
    // A part of a long key could be a key that we look for.
    if (size > kJsonKeyBytesMax) path_.keys_[path_.depth_ - 1] = "[long]";
    events_->on_key(path_);
    return true;
  }
  bool on_string_part(json::string_view piece, std::size_t /*size*/, json::error_code& /*ec*/) {
    events_->on_text(path_, {piece.data(), piece.size()}, false);
    return true;
  }
  bool on_string(json::string_view piece, std::size_t /*size*/, json::error_code& /*ec*/) {
    events_->on_text(path_, {piece.data(), piece.size()}, true);
    return true;
  }
  bool on_number_part(json::string_view /*piece*/, json::error_code& /*ec*/) { return true; }
  bool on_int64(std::int64_t value, json::string_view /*text*/, json::error_code& /*ec*/) {
    events_->on_whole(path_, value);
    return true;
  }
  bool on_uint64(std::uint64_t value, json::string_view /*text*/, json::error_code& /*ec*/) {
    events_->on_fraction(path_, static_cast<double>(value));
    return true;
  }
  bool on_double(double value, json::string_view /*text*/, json::error_code& /*ec*/) {
    events_->on_fraction(path_, value);
    return true;
  }
  bool on_bool(bool value, json::error_code& /*ec*/) {
    events_->on_truth(path_, value);
    return true;
  }
  bool on_null(json::error_code& /*ec*/) {
    events_->on_null(path_);
    return true;
  }
  bool on_comment_part(json::string_view /*text*/, json::error_code& /*ec*/) { return true; }
  bool on_comment(json::string_view /*text*/, json::error_code& /*ec*/) { return true; }

 private:
  bool begin(std::string_view key) {
    events_->on_container(path_);
    if (path_.keys_.size() == path_.depth_) path_.keys_.emplace_back();
    path_.keys_[path_.depth_++] = key;
    return true;
  }
  bool end() {
    --path_.depth_;
    return true;
  }
  void append_key(json::string_view piece) {
    std::string& key = path_.keys_[path_.depth_ - 1];
    if (!key_open_) key.clear();
    key_open_ = true;
    const std::size_t room = kJsonKeyBytesMax - key.size();
    key.append(piece.data(), std::min(piece.size(), room));
  }

  JsonEvents* events_;
  JsonPath path_;
  bool key_open_ = false;
};

namespace {

json::parse_options options() {
  json::parse_options out;
  out.max_depth = kJsonDepthMax;
  // We count; whether a text is well-formed is for those who read it.
  out.allow_invalid_utf8 = true;
  return out;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

struct JsonWalk::Parser {
  explicit Parser(JsonEvents& events) : impl(options(), events) {}
  json::basic_parser<JsonHandler> impl;
};

JsonWalk::JsonWalk(JsonEvents& events) : parser_(std::make_unique<Parser>(events)) {}
JsonWalk::~JsonWalk() = default;

void JsonWalk::reset() {
  parser_->impl.reset();
  parser_->impl.handler().reset();
  failed_ = false;
}

bool JsonWalk::feed(std::string_view piece) {
  if (failed_ || piece.empty()) return !failed_;
  if (parser_->impl.done()) {
    failed_ = !is_blank(piece);
    return !failed_;
  }
  json::error_code ec;
  const std::size_t used = parser_->impl.write_some(true, piece.data(), piece.size(), ec);
  failed_ = ec.failed() || !is_blank(piece.substr(used));
  return !failed_;
}

bool JsonWalk::finish() {
  if (failed_) return false;
  if (!parser_->impl.done()) {
    json::error_code ec;
    const char nothing = ' ';
    parser_->impl.write_some(false, &nothing, 0, ec);
    failed_ = ec.failed();
  }
  return !failed_ && parser_->impl.done();
}

}  // namespace caisson::egress
