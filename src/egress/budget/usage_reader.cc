// How it works: EventLines cuts a stream into the data of its events, JsonWalk walks through each
// of them (or through the one body), and UsageNotes writes down the few numbers that matter.
#include "egress/budget/usage_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "egress/budget/event_lines.h"
#include "egress/budget/json_walk.h"
#include "policy/capability.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

constexpr std::size_t kTypeBytesMax = 32;
// Types of the last event of a stream; a stream of chat ends with [DONE] instead.
constexpr std::array<std::string_view, 4> kLastTypes = {"response.completed", "response.incomplete",
                                                        "response.failed", "message_stop"};
// Texts of a delta that the model did not write.
constexpr std::array<std::string_view, 10> kNotOutput = {
    "role",          "id",        "type",    "name",  "stop_reason", "finish_reason",
    "stop_sequence", "signature", "call_id", "status"};

// The greatest that was said: providers that report while they stream add up.
void raise(std::optional<std::int64_t>& kept, std::int64_t value) {
  kept = std::max(kept.value_or(0), value);
}

class UsageNotes final : public JsonEvents {
 public:
  std::optional<std::int64_t> input, output, total, cached, cache_read, cache_write;
  bool odd = false;    // a number that no provider would say
  bool ended = false;  // the last event was there
  std::uint64_t text_bytes = 0;
  std::int64_t events_with_text = 0;

  void begin_document() {
    type_.clear();
    text_here_ = false;
  }
  void end_document() {
    ended = ended || std::ranges::find(kLastTypes, type_) != kLastTypes.end();
    if (text_here_) events_with_text = sum_capped(events_with_text, 1);
  }

  void on_key(const JsonPath& /*path*/) override {}
  void on_container(const JsonPath& /*path*/) override {}
  void on_truth(const JsonPath& /*path*/, bool /*value*/) override {}
  void on_null(const JsonPath& /*path*/) override {}

  void on_whole(const JsonPath& path, std::int64_t value) override {
    std::optional<std::int64_t>* slot = slot_of(path);
    if (slot == nullptr) return;
    odd = odd || value < 0;
    raise(*slot, std::clamp<std::int64_t>(value, 0, policy::kTokensMax));
  }
  void on_fraction(const JsonPath& path, double value) override {
    std::optional<std::int64_t>* slot = slot_of(path);
    if (slot == nullptr) return;
    const bool sound = value >= 0 && value <= static_cast<double>(policy::kTokensMax);
    odd = odd || !sound;
    raise(*slot, sound ? static_cast<std::int64_t>(std::ceil(value)) : policy::kTokensMax);
  }
  void on_text(const JsonPath& path, std::string_view piece, bool /*last*/) override {
    if (path.is({"type"}) && type_.size() + piece.size() <= kTypeBytesMax) type_ += piece;
    if (piece.empty() || !is_output(path)) return;
    text_bytes += piece.size();
    text_here_ = true;
  }

 private:
  // {"usage": …}, {"response": {"usage": …}} and {"message": {"usage": …}}.
  std::optional<std::int64_t>* slot_of(const JsonPath& path) {
    std::size_t at = 0;
    if (path.depth() > 1 && (path.key(0) == "response" || path.key(0) == "message")) at = 1;
    if (path.depth() < at + 2 || path.key(at) != "usage") return nullptr;
    const std::string_view name = path.key(at + 1);
    if (path.depth() == at + 3) {
      const bool details = name == "prompt_tokens_details" || name == "input_tokens_details";
      return details && path.last() == "cached_tokens" ? &cached : nullptr;
    }
    if (path.depth() != at + 2) return nullptr;
    if (name == "prompt_tokens" || name == "input_tokens") return &input;
    if (name == "completion_tokens" || name == "output_tokens") return &output;
    if (name == "total_tokens") return &total;
    if (name == "cache_read_input_tokens") return &cache_read;
    if (name == "cache_creation_input_tokens") return &cache_write;
    return nullptr;
  }

  // Only what is new: the events that end a part or the whole repeat its text.
  static bool is_output(const JsonPath& path) {
    if (std::ranges::find(kNotOutput, path.last()) != kNotOutput.end()) return false;
    return path.passes("delta") || path.is({"choices", "[]", "text"}) ||
           path.is({"content_block", "text"});
  }

  std::string type_;
  bool text_here_ = false;
};

}  // namespace

class UsageReader::State final : private EventData {
 public:
  State(Provider provider, Framing framing) : provider_(provider), framing_(framing) {}

  void feed(std::string_view piece) {
    bytes_ += piece.size();
    if (framing_ == Framing::Json) {
      walk_.feed(piece);
    } else {
      lines_.feed(piece);
    }
  }

  [[nodiscard]] std::int64_t output_seen() const noexcept {
    const std::int64_t counted =
        std::max(notes_.events_with_text, tokens_of_bytes(notes_.text_bytes));
    return std::max(notes_.output.value_or(0), counted);
  }

  UsageReport finish(std::int64_t input_tokens) {
    // The last event may lack its empty line. One that was cut says nothing, and is no reason to
    // doubt the others.
    if (in_event_ && (head_ == kDone || walk_.finish())) on_event_end();
    const bool whole = framing_ == Framing::Json ? walk_.finish() : !bad_event_;
    const bool ended = framing_ == Framing::Json ? whole : notes_.ended;
    const bool told = notes_.input && (notes_.output || notes_.total);
    UsageReport report;
    report.usage = said(input_tokens);
    if (whole && ended && told && !notes_.odd) {
      report.reading = Reading::Exact;
    } else if (framing_ == Framing::EventStream && whole && !notes_.odd && events_ > 0) {
      report.reading = Reading::Incomplete;
      report.usage.output = std::max(report.usage.output, output_seen());
    } else {
      report.reading = Reading::Unreadable;
      report.usage.output = std::max({report.usage.output, output_seen(), tokens_of_bytes(bytes_)});
    }
    return report;
  }

 private:
  [[nodiscard]] TokenUsage said(std::int64_t input_tokens) const {
    TokenUsage usage;
    const std::int64_t input = notes_.input.value_or(std::max<std::int64_t>(input_tokens, 0));
    usage.output = notes_.output.value_or(0);
    if (provider_ == Provider::Anthropic) {
      usage.input = input;
      usage.cached_input = notes_.cache_read.value_or(0);
      usage.cache_write = notes_.cache_write.value_or(0);
      return usage;
    }
    // Here the cached ones are among the input, and some providers tell what the model thought in
    // the total only.
    usage.cached_input = std::min(notes_.cached.value_or(0), input);
    usage.input = input - usage.cached_input;
    if (notes_.input) usage.output = std::max(usage.output, notes_.total.value_or(0) - input);
    return usage;
  }

  void on_data(std::string_view piece) override {
    if (!in_event_) {
      walk_.reset();
      notes_.begin_document();
      head_.clear();
      in_event_ = true;
      sound_ = true;
    }
    head_ += piece.substr(0, kDone.size() + 1 - std::min(head_.size(), kDone.size() + 1));
    sound_ = walk_.feed(piece) && sound_;
  }

  void on_event_end() override {
    if (!in_event_) return;
    in_event_ = false;
    events_ = sum_capped(events_, 1);
    if (head_ == kDone) {
      notes_.ended = true;
      return;
    }
    bad_event_ = !walk_.finish() || !sound_ || bad_event_;
    notes_.end_document();
  }

  static constexpr std::string_view kDone = "[DONE]";

  Provider provider_;
  Framing framing_;
  UsageNotes notes_;
  JsonWalk walk_{notes_};
  EventLines lines_{*this};
  std::uint64_t bytes_ = 0;
  std::int64_t events_ = 0;
  std::string head_;  // the event's first bytes, as many as it takes to know [DONE]
  bool in_event_ = false;
  bool sound_ = true;
  bool bad_event_ = false;
};

Framing framing_of(std::string_view content_type) noexcept {
  constexpr std::string_view kStream = "text/event-stream";
  if (content_type.size() < kStream.size()) return Framing::Json;
  const bool same = std::ranges::equal(content_type.substr(0, kStream.size()), kStream, {},
                                       [](char c) { return policy::lower(c); });
  const std::string_view rest = content_type.substr(kStream.size());
  const bool ends = rest.empty() || rest[0] == ';' || rest[0] == ' ' || rest[0] == '\t';
  return same && ends ? Framing::EventStream : Framing::Json;
}

std::string_view to_string(Reading reading) noexcept {
  switch (reading) {
    case Reading::Exact:
      return "exact";
    case Reading::Incomplete:
      return "incomplete";
    case Reading::Unreadable:
      return "unreadable";
  }
  return "unreadable";
}

UsageReader::UsageReader(Provider provider, Framing framing)
    : state_(std::make_unique<State>(provider, framing)) {}
UsageReader::UsageReader(UsageReader&&) noexcept = default;
UsageReader& UsageReader::operator=(UsageReader&&) noexcept = default;
UsageReader::~UsageReader() = default;

void UsageReader::feed(std::string_view piece) { state_->feed(piece); }
std::int64_t UsageReader::output_tokens_seen() const noexcept { return state_->output_seen(); }
UsageReport UsageReader::finish(std::int64_t input_tokens) { return state_->finish(input_tokens); }

}  // namespace caisson::egress
