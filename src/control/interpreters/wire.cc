#include "control/interpreters/wire.h"

#include <algorithm>
#include <array>
#include <boost/json/memory_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/storage_ptr.hpp>
#include <cmath>
#include <cstring>
#include <new>

#include "control/text.h"

namespace caisson::control::interpreters {

namespace json = boost::json;

namespace {

constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kNameBytesMax = 256;
constexpr std::int64_t kMicrosecondsMax = 24LL * 3600 * 1'000'000 * 365;

std::unexpected<Error> broken(std::string what) {
  return failure(Errc::Protocol, "the interpreter " + std::move(what));
}

std::uint32_t read_u32(const char* at) noexcept {
  std::array<unsigned char, 4> bytes{};
  std::memcpy(bytes.data(), at, bytes.size());
  return std::uint32_t{bytes[0]} | std::uint32_t{bytes[1]} << 8U | std::uint32_t{bytes[2]} << 16U |
         std::uint32_t{bytes[3]} << 24U;
}

void add_u32(std::string& out, std::uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8)
    out.push_back(static_cast<char>(value >> shift & 0xffU));
}

// A few bytes of text can become a large tree: a list of empty lists, for one.
class BoundedMemory final : public json::memory_resource {
 public:
  explicit BoundedMemory(std::size_t bytes) : left_(bytes) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    if (bytes > left_) throw std::bad_alloc();
    left_ -= bytes;
    return json::storage_ptr()->allocate(bytes, align);
  }
  void do_deallocate(void* at, std::size_t bytes, std::size_t align) override {
    left_ += bytes;
    json::storage_ptr()->deallocate(at, bytes, align);
  }
  bool do_is_equal(const json::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::size_t left_;
};

// The document lies in `memory`, and must not outlive it.
Result<json::value> parse_within(std::string_view text, BoundedMemory& memory) {
  boost::system::error_code wrong;
  json::parse_options options;
  options.max_depth = kDepthMax;
  try {
    json::value value = json::parse(text, wrong, json::storage_ptr(&memory), options);
    if (wrong || !value.is_object()) return broken("said something that is no JSON object");
    return value;
  } catch (const std::bad_alloc&) {
    return broken("said more than a result may hold");
  }
}

// One member each, of the type that is wanted; `wrong` when it is another.
class Members {
 public:
  explicit Members(const json::object& object) : object_(object) {}

  std::string text(std::string_view name, std::size_t bytes_max) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_string()) return wrong_ = true, std::string();
    return cut_text(at->get_string(), bytes_max);
  }
  std::optional<std::string> maybe_text(std::string_view name, std::size_t bytes_max) {
    const json::value* at = object_.if_contains(name);
    if (at != nullptr && at->is_null()) return std::nullopt;
    return text(name, bytes_max);
  }
  std::int64_t whole(std::string_view name, std::int64_t min, std::int64_t max) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_int64() || at->get_int64() < min || at->get_int64() > max)
      return wrong_ = true, std::int64_t{0};
    return at->get_int64();
  }
  bool flag(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_bool()) return wrong_ = true, false;
    return at->get_bool();
  }
  const json::array* list(std::string_view name, std::size_t max) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_array() || at->get_array().size() > max)
      return wrong_ = true, nullptr;
    return &at->get_array();
  }
  const json::object* inner(std::string_view name) {
    const json::value* at = object_.if_contains(name);
    if (at == nullptr || !at->is_object()) return wrong_ = true, nullptr;
    return &at->get_object();
  }
  [[nodiscard]] bool wrong() const noexcept { return wrong_; }

 private:
  const json::object& object_;
  bool wrong_ = false;
};

// A number beyond what a double holds is read as infinity, which JSON cannot say again.
bool is_finite(const json::value& value) {
  if (value.is_double()) return std::isfinite(value.get_double());
  if (value.is_array()) return std::ranges::all_of(value.get_array(), is_finite);
  return !value.is_object() || std::ranges::all_of(value.get_object(), [](const auto& one) {
    return is_finite(one.value());
  });
}

bool read_output(const json::value& value, CodeOutput& out, bool& truncated) {
  if (!value.is_object()) return false;
  Members members(value.get_object());
  out.main = members.flag("main");
  const json::object* data = members.inner("data");
  if (members.wrong() || data->empty()) return false;
  for (const auto& [mime, content] : *data) {
    if (mime.size() > kNameBytesMax) return false;
    if (!is_finite(content)) {
      truncated = true;
      continue;
    }
    // A copy in memory of its own: the document does not live as long.
    out.data.emplace(mime, json::value(content, json::storage_ptr()));
  }
  return true;
}

Result<void> read_answer(const json::object& object, CodeOutcome& outcome) {
  Members members(object);
  outcome.value = members.maybe_text("value", kTextBytesMax);
  outcome.outputs_truncated = members.flag("truncated");
  if (const json::value* error = object.if_contains("error");
      error != nullptr && !error->is_null()) {
    const json::object* inner = members.inner("error");
    if (inner == nullptr) return broken("said an error that is none");
    Members of(*inner);
    outcome.error = CodeError{of.text("name", kNameBytesMax), of.text("value", kTextBytesMax),
                              of.text("traceback", kTextBytesMax)};
    if (of.wrong()) return broken("said an error that is none");
  }
  const json::array* outputs = members.list("outputs", kCodeOutputsMax);
  if (members.wrong()) return broken("said an answer that is none");
  for (const json::value& one : *outputs) {
    CodeOutput output;
    if (!read_output(one, output, outcome.outputs_truncated))
      return broken("showed something that is nothing to show");
    if (!output.data.empty()) outcome.outputs.push_back(std::move(output));
  }
  return {};
}

}  // namespace

void FrameReader::feed(std::string_view bytes) {
  if (begin_ == held_.size()) {
    held_.clear();
    begin_ = 0;
  } else if (begin_ > held_.size() / 2) {
    held_.erase(0, begin_);
    begin_ = 0;
  }
  held_.append(bytes);
}

Result<std::optional<Frame>> FrameReader::next() {
  if (held() < kHeadBytes) return std::optional<Frame>();
  const char* head = held_.data() + begin_;
  const std::uint32_t size = read_u32(head);
  const auto kind = static_cast<std::uint8_t>(head[4]);
  const auto stream = static_cast<std::uint8_t>(head[5]);
  if (size > kFrameBytesMax) return broken("said a frame that is too large");
  if (kind < static_cast<std::uint8_t>(Said::Hello) ||
      kind > static_cast<std::uint8_t>(Said::Closed))
    return broken("said a frame of an unknown kind");
  const bool output = kind == static_cast<std::uint8_t>(Said::Output);
  if (head[6] != 0 || head[7] != 0 || (output ? stream < 1 || stream > 2 : stream != 0))
    return broken("said a frame that is malformed");
  // Nothing would pay for one that carries nothing: they could come for ever.
  if (output && size == 0) return broken("said an output that is empty");
  if (held() < kHeadBytes + size) return std::optional<Frame>();
  Frame out;
  out.kind = static_cast<Said>(kind);
  out.stream = stream;
  out.id = read_u32(head + 8);
  out.payload = held_.substr(begin_ + kHeadBytes, size);
  begin_ += kHeadBytes + size;
  return out;
}

std::string frame(Ask kind, std::uint32_t id, std::string_view payload) {
  std::string out;
  out.reserve(kHeadBytes + payload.size());
  add_u32(out, static_cast<std::uint32_t>(payload.size()));
  out.push_back(static_cast<char>(kind));
  out.append(3, '\0');
  add_u32(out, id);
  return out.append(payload);
}

std::string credit_frame(std::uint32_t run, std::uint32_t out, std::uint32_t err) {
  std::string payload;
  add_u32(payload, out);
  add_u32(payload, err);
  return frame(Ask::Credit, run, payload);
}

Result<Hello> parse_hello(std::string_view text) {
  BoundedMemory memory(kParsedBytesMax);
  const json::value value = TRY(parse_within(text, memory));
  Members members(value.get_object());
  Hello hello;
  hello.version = members.text("version", kNameBytesMax);
  const json::array* warnings = members.list("warnings", kWarningsMax);
  if (members.wrong()) return broken("did not say who it is");
  for (const json::value& one : *warnings) {
    if (!one.is_string()) return broken("did not say who it is");
    hello.warnings.push_back(cut_text(one.get_string(), kTextBytesMax));
  }
  return hello;
}

Result<Done> parse_done(std::string_view text) {
  BoundedMemory memory(kParsedBytesMax);
  const json::value value = TRY(parse_within(text, memory));
  Members members(value.get_object());
  Done done;
  done.exit_code = static_cast<int>(members.whole("exit_code", -1, 255));
  done.died = members.flag("died");
  done.out_lost = static_cast<std::uint64_t>(members.whole("out_lost", 0, INT64_MAX));
  done.err_lost = static_cast<std::uint64_t>(members.whole("err_lost", 0, INT64_MAX));
  done.ran = microseconds(members.whole("us", 0, kMicrosecondsMax));
  if (members.wrong()) return broken("said an end that is none");
  return done;
}

Result<std::optional<std::string>> parse_opened(std::string_view text) {
  BoundedMemory memory(kParsedBytesMax);
  const json::value value = TRY(parse_within(text, memory));
  Members members(value.get_object());
  auto error = members.maybe_text("error", kTextBytesMax);
  if (members.wrong()) return broken("opened a context in words that mean nothing");
  return error;
}

Result<void> parse_answer(std::string_view text, CodeOutcome& outcome) {
  BoundedMemory memory(kParsedBytesMax);
  const json::value value = TRY(parse_within(text, memory));
  return read_answer(value.get_object(), outcome);
}

}  // namespace caisson::control::interpreters
